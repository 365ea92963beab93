package genfile

import (
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/stack/composefile"
	"github.com/flisk-go/flisk/pkg/stack/traefik"
)

// File is one generated file, sealed.
type File struct {
	Path    string // in the project, with slashes
	Content []byte

	// Shared files are mounted into a container whose user is nobody of this
	// machine: everybody may read them, whatever the umask. None holds a secret.
	Shared bool
}

// Of makes the generated files of a stack, in the order of their paths. Equal
// stacks have equal files.
func Of(s stack.Stack) ([]File, error) {
	static, err := traefik.Static(s)
	if err != nil {
		return nil, cannotMake(composefile.StaticFile, err)
	}
	static = Seal(static)
	routes, err := traefik.Dynamic(s.InsideRoutes())
	if err != nil {
		return nil, cannotMake(composefile.RoutesFile, err)
	}
	compose, err := composefile.Render(s, static)
	if err != nil {
		return nil, cannotMake(composefile.FileName, err)
	}
	return []File{
		{Path: composefile.FileName, Content: Seal(compose)},
		{Path: composefile.RoutesFile, Content: Seal(routes), Shared: true},
		{Path: composefile.StaticFile, Content: static, Shared: true},
	}, nil
}

func cannotMake(path string, err error) error {
	return fault.New(fault.Usage, "", "cannot make %s: %w", path, err)
}
