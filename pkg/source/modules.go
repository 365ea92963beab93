package source

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"github.com/flisk-go/flisk/pkg/project"
)

// place is a directory outside of the project that an agent's build reads: the
// module that the project is a part of, one that a go.mod replaces another with,
// or one of the workspace.
type place struct {
	dir    string   // absolute
	only   []string // the names that count in it; nil: all that a build reads, in any depth
	agents []string // that are built from it
}

// module is one that agents are built from: what it is imported as, and where it
// is.
type module struct{ path, dir string }

// placesOf finds them for all agents, and the modules that those are of. Only local directories matter: a version
// from the module cache never changes. A go.mod that cannot be read names none;
// there is nothing to build either until it is mended.
func placesOf(p *project.Project) ([]place, []module) {
	var out []place
	var modules []module
	add := func(agent, dir string, only ...string) {
		if inside(p.Dir, dir) {
			return
		}
		i := slices.IndexFunc(out, func(known place) bool { return known.dir == dir && slices.Equal(known.only, only) })
		if i < 0 {
			i = len(out)
			out = append(out, place{dir: dir, only: only})
		}
		if !slices.Contains(out[i].agents, agent) {
			out[i].agents = append(out[i].agents, agent)
		}
	}
	for _, a := range p.Agents {
		dir := filepath.Join(p.Dir, filepath.FromSlash(a.Path))
		of, work := modulesOf(behindLink(p.Dir, dir))
		for _, m := range of {
			add(a.Name, m.dir)
			if !slices.Contains(modules, m) {
				modules = append(modules, m)
			}
		}
		if work != "" {
			add(a.Name, filepath.Dir(work), filepath.Base(work), filepath.Base(work)+".sum")
		}
	}
	return out, modules
}

// behindLink is where a directory is, after links. What is in the project keeps
// the name that it has there, whatever links lead to the project.
func behindLink(project, dir string) string {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return dir
	}
	if root, err := filepath.EvalSymlinks(project); err == nil && inside(root, real) {
		return filepath.Join(project, strings.TrimPrefix(real, root))
	}
	return real
}

// modulesOf lists the modules that a build in dir is made of, and the go.work that
// names some of them, or "".
func modulesOf(dir string) (modules []module, work string) {
	var mains []string
	if mod := upward(dir, "go.mod"); mod != "" {
		mains = append(mains, filepath.Dir(mod))
	}
	replaced := func(from string, replacements []*modfile.Replace) {
		for _, r := range replacements {
			if r.New.Version == "" {
				modules = append(modules, module{r.Old.Path, below(from, r.New.Path)})
			}
		}
	}
	if work = workspace(dir); work != "" {
		if file, err := parse(work, modfile.ParseWork); err == nil {
			for _, use := range file.Use {
				mains = append(mains, below(filepath.Dir(work), use.Path))
			}
			replaced(filepath.Dir(work), file.Replace)
		}
	}
	for _, main := range mains {
		m := module{dir: main}
		file, err := parse(filepath.Join(main, "go.mod"), modfile.Parse)
		if err == nil && file.Module != nil {
			m.path = file.Module.Mod.Path
		}
		if modules = append(modules, m); err == nil {
			replaced(main, file.Replace)
		}
	}
	return modules, work
}

func parse[F any](name string, how func(string, []byte, modfile.VersionFixer) (*F, error)) (*F, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return how(name, content, nil)
}

// workspace is the go.work that a build in dir uses, or "".
func workspace(dir string) string {
	switch set := os.Getenv("GOWORK"); set {
	case "off":
		return ""
	case "":
		return upward(dir, "go.work")
	default:
		return set
	}
}

// upward finds a file in dir or in the nearest directory above it.
func upward(dir, name string) string {
	for at := dir; ; at = filepath.Dir(at) {
		file := filepath.Join(at, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return file
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

func below(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, filepath.FromSlash(path))
}

// inside reports whether path is dir or below it.
func inside(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
