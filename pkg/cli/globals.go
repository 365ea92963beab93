package cli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// globals are the flags of every command. Each may also come from the
// environment (FLISK_CHDIR for --chdir); the flag wins.
type globals struct {
	dir      string
	json     bool
	noInput  bool
	yes      bool
	runtime  string
	instance string
}

// The values of --runtime.
const (
	runtimeAuto    = "auto"
	runtimeProcess = "process"
	runtimeDocker  = "docker"
)

func runtimeNames() []string { return []string{runtimeAuto, runtimeProcess, runtimeDocker} }

func (g *globals) bind(flags *pflag.FlagSet) {
	flags.StringVarP(&g.dir, "chdir", "C", "", "work on the project in `DIR` instead of here")
	flags.BoolVar(&g.json, "json", false, "print one JSON value on stdout (an error: one on stderr)")
	flags.BoolVar(&g.noInput, "no-input", false, "never ask; what would need an answer is refused")
	flags.BoolVarP(&g.yes, "yes", "y", false, "answer every question with yes")
	flags.StringVar(&g.runtime, "runtime", "", "run on `RUNTIME`: docker, process, or auto, which finds out")
	flags.StringVar(&g.instance, "instance", "", "work on a second copy of the project, called `NAME`: own conversations, own port")
}

// variable is the name of the environment variable behind a global flag.
func variable(flag string) string {
	return "FLISK_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment fills the flags that were not given from the environment, and
// checks their values.
func (g *globals) fromEnvironment(flags *pflag.FlagSet, getenv func(string) string) error {
	var err error
	flags.VisitAll(func(f *pflag.Flag) {
		value := getenv(variable(f.Name))
		if f.Changed || value == "" || err != nil {
			return
		}
		if f.Value.Type() == "bool" {
			if _, bad := strconv.ParseBool(value); bad != nil {
				err = fault.New(fault.Usage, "use 1 or 0", "%s cannot be %q", variable(f.Name), value)
				return
			}
		}
		err = f.Value.Set(value)
	})
	if err != nil {
		return err
	}
	if g.instance != "" && !stack.ValidInstance(g.instance) {
		return fault.New(fault.Usage, "use lower case letters, digits and -, beginning with a letter, at most "+strconv.Itoa(turn.MaxAgent),
			"there cannot be an instance %q", g.instance)
	}
	if g.runtime != "" && !slices.Contains(runtimeNames(), g.runtime) {
		return fault.New(fault.Usage, "use docker, process or auto", "there is no runtime %q", g.runtime)
	}
	return nil
}

// asksForJSON finds --json on a command line that could not be parsed, so that
// its error is JSON, too.
func asksForJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--json")
}
