package toolchain

import "context"

// Examine finds out what Build would say before it builds anything: whether Dir
// is a main package of a module, and whether there is a toolchain that is new
// enough for it. It returns that toolchain.
//
// Errors: those of [Build], of kinds Environment and Usage.
func Examine(ctx context.Context, o Options) (Go, error) {
	dir, _, err := o.places()
	if err != nil {
		return Go{}, err
	}
	found, _, err := examine(ctx, dir, o)
	return found, err
}

func examine(ctx context.Context, dir string, o Options) (Go, module, error) {
	if err := checkMain(dir, o); err != nil {
		return Go{}, module{}, err
	}
	mod, err := findModule(dir)
	if err != nil {
		return Go{}, mod, err
	}
	toolchain, err := Find(ctx)
	if err != nil {
		return Go{}, mod, err
	}
	return toolchain, mod, toolchain.check(mod)
}
