package verify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const mutants = "../../testdata/mutants"

// mutant is one line of the table.
type mutant struct{ name, check, rule string }

func readMutants(t *testing.T) []mutant {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(mutants, "mutants.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var all []mutant
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(fields) < 3 {
			t.Fatalf("not a mutant, a check and a rule: %q", line)
		}
		all = append(all, mutant{fields[0], fields[1], strings.Join(fields[2:], " ")})
	}
	return all
}

// edit is one replacement in a file.
type edit struct{ find, put string }

// readPatches reads the replacements of a mutant, by the file they are for.
func readPatches(path string) (map[string][]edit, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	patches := map[string][]edit{}
	var file string
	var into *string
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "== "); ok {
			file, into = strings.TrimSpace(name), nil
			continue
		}
		edits := patches[file]
		switch {
		case line == "-- find\n" && file != "":
			patches[file] = append(edits, edit{})
			into = &patches[file][len(edits)].find
		case line == "-- put\n" && len(edits) > 0:
			into = &edits[len(edits)-1].put
		case into != nil:
			*into += line
		default:
			return nil, fmt.Errorf("%s: %q belongs to nothing", path, line)
		}
	}
	return patches, nil
}

// targets are the mutants that are made of the stack.
var targets = map[string]func(*bench) Target{
	"kill-misses": func(b *bench) Target { return killMisses{b} },
	"kill-lies":   func(b *bench) Target { return killLies{b} },

	"gateway-too-late": func(b *bench) Target { return gatewayTooLate{b} },
	"old-code-serves":  func(b *bench) Target { return &oldCodeServes{bench: b} },
	"reload-skipped":   func(b *bench) Target { return reloadSkipped{b} },
}

// killMisses is a stack whose kill kills nothing, and which says what it sees.
type killMisses struct{ *bench }

func (k killMisses) Signal(ctx context.Context, sig syscall.Signal) (Change, error) {
	if sig != syscall.SIGKILL {
		return k.bench.Signal(ctx, sig)
	}
	return Change{Before: k.current.id, After: k.current.id}, nil
}

// killLies is one that says it did.
type killLies struct{ *bench }

func (k killLies) Signal(ctx context.Context, sig syscall.Signal) (Change, error) {
	if sig != syscall.SIGKILL {
		return k.bench.Signal(ctx, sig)
	}
	return Change{k.current.id, Process{k.current.id.PID + 1, "later"}, Exit{-1, syscall.SIGKILL}}, nil
}

// gatewayTooLate is a stack that stops the old process before the gateway is told
// of the new one. Its drain lets the old one serve for a while, but for saying that
// it is ready.
type gatewayTooLate struct{ *bench }

func (g gatewayTooLate) Reload(ctx context.Context) (Reloaded, error) {
	g.newCode()
	old := g.current
	next, err := g.launch(ctx)
	if err != nil {
		return Reloaded{}, err
	}
	g.current = next
	exit, err := g.stopProcess(ctx, old)
	g.route(next)
	return Reloaded{g.env.Code, func(context.Context) (Change, error) { return Change{old.id, next.id, exit}, nil }}, err
}

// oldCodeServes is one whose gateway never forgets the first process.
type oldCodeServes struct {
	*bench
	first *agentProcess
}

func (o *oldCodeServes) Reload(ctx context.Context) (Reloaded, error) {
	o.newCode()
	old, next, err := o.replace(ctx)
	if err != nil {
		return Reloaded{}, err
	}
	if o.first == nil {
		o.first = old
	}
	o.route(o.first, next)
	return Reloaded{o.env.Code, func(ctx context.Context) (Change, error) {
		if old == o.first {
			return Change{Before: old.id, After: next.id}, nil
		}
		return o.retire(ctx, old, next)
	}}, nil
}

// reloadSkipped is one that says that it reloaded, and lets the old process be.
type reloadSkipped struct{ *bench }

func (r reloadSkipped) Reload(context.Context) (Reloaded, error) {
	id := r.current.id
	r.started++
	r.newCode()
	return Reloaded{r.env.Code, func(context.Context) (Change, error) { return Change{Before: id, After: id}, nil }}, nil
}

// Every mutant must be caught by the check that the table names.
func TestMutantsAreCaught(t *testing.T) {
	t.Parallel()
	for _, m := range readMutants(t) {
		t.Run(m.check+"/"+m.name, func(t *testing.T) {
			t.Parallel()
			var target Target
			if make, ok := targets[m.name]; ok {
				target = make(newBench(t, goodAgent(t)))
			} else {
				target = newBench(t, mutatedAgent(t, m.name))
			}
			o := testOptions()
			if os.Getenv("FLISK_TEST_LONG") == "" {
				o.Only = []string{m.check}
			}
			report, err := Run(t.Context(), target, o)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(report.Checks, func(r Result) bool { return r.Check == m.check })
			if i < 0 || report.Checks[i].Verdict != Broken || report.Verdict != Broken {
				t.Errorf("the check %q does not see that %q does not hold:\n%s", m.check, m.rule, table(report))
			} else {
				t.Logf("%s\n  broken rule: %s\n  seen:        %s", m.name, m.rule, report.Checks[i].Summary())
			}
		})
	}
}

// The table, the files and the checks must fit each other: a mutant that nobody
// builds catches nothing.
func TestMutantsTable(t *testing.T) {
	t.Parallel()
	named := map[string]bool{}
	covered := map[string]bool{}
	for _, m := range readMutants(t) {
		named[m.name], covered[m.check] = true, true
		_, isTarget := targets[m.name]
		if _, err := os.Stat(filepath.Join(mutants, m.name+".txt")); !isTarget && err != nil {
			t.Errorf("mutant %s: %v", m.name, err)
		}
		if _, err := Select([]string{m.check}); err != nil {
			t.Errorf("mutant %s: %v", m.name, err)
		}
	}
	for _, c := range Checks() {
		if !covered[c.Name] {
			t.Errorf("nothing shows that the check %q can fail", c.Name)
		}
	}
	files, err := filepath.Glob(filepath.Join(mutants, "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".txt"); name != "mutants" && !named[name] {
			t.Errorf("%s is not in the table", file)
		}
	}
	if _, err := Select([]string{"no-such"}); !errors.Is(err, ErrNoCheck) {
		t.Errorf("an unknown check: %v", err)
	}
}
