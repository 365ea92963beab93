package docker

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/toolchain"
)

// build makes an agent's image: from a static program that is built here, where
// there is a Go toolchain, no C code, and the override says nothing of how to
// build, and by its Dockerfile otherwise. One that was made from the same source
// in the same way is there already, and needs neither.
func (a *apply) build(ctx context.Context, w wantedAgent) error {
	was, ok, err := a.e.inspectImage(ctx, w.Image)
	if err != nil {
		return err
	}
	if ok && was.Config != nil && was.Architecture == a.e.facts.Arch && a.d.ours(was.Config.Labels) &&
		was.Config.Labels[labelCode] == w.code && was.Config.Labels[labelBuild] == w.build {
		return nil
	}
	began := time.Now()
	end := a.p.Begin("build " + w.Agent.Name)
	a.rest = append(a.rest, tagged{w.Image, was.ID})
	if err = a.buildProgram(ctx, w); errors.Is(err, errNotHere) {
		err = a.buildImage(ctx, w)
	} else if err == nil {
		err = a.loadImage(ctx, w)
	}
	end(runtime.Span(time.Since(began)), err)
	return err
}

// errNotHere says that the program is not to be built on this machine.
var errNotHere = errors.New("there is no Go toolchain here that is to be used, or it is not enough")

// buildProgram makes the program for the engine's machine. One under a wrong hash
// would be used again when the source goes back to that hash; so there is none
// when runtime.ErrSourceChanged is returned.
func (a *apply) buildProgram(ctx context.Context, w wantedAgent) error {
	if w.build != plainly {
		return errNotHere
	}
	if exists(w.program) {
		return nil
	}
	if _, err := toolchain.Find(ctx); fault.KindOf(err) == fault.Environment && err != nil && ctx.Err() == nil {
		return errNotHere
	}
	o := toolchain.Options{Dir: w.Dir, Root: a.d.o.Stack.Dir, Out: w.program, GOOS: "linux", GOARCH: a.e.facts.Arch}
	switch c, err := toolchain.CPackages(ctx, o); {
	case ctx.Err() != nil:
		return err
	case err == nil && len(c) > 0: // else Build says what is wrong
		a.warnC(w, c)
		return errNotHere
	}
	if err := os.MkdirAll(filepath.Dir(w.program), userOnly); err != nil {
		return fault.New(fault.Environment, homeHint, "cannot build agent %q: %w", w.Agent.Name, err)
	}
	// What the compiler prints comes back in the error, and only once.
	err := toolchain.Build(ctx, o)
	if err == nil {
		err = a.checkSource(w)
	}
	if errors.Is(err, runtime.ErrSourceChanged) {
		err = errors.Join(err, os.Remove(w.program))
	}
	return err
}

// warnC says why an agent with C code is not built here: a static program has none,
// and what stands in for C is often a function that fails. A Dockerfile that leaves
// it out as well is told, because its build may succeed.
func (a *apply) warnC(w wantedAgent, packages []string) {
	text := fmt.Sprintf("agent %q needs cgo, because there is C code in %s: its image is made by its Dockerfile, and not from a program that is built here", w.Agent.Name, strings.Join(packages, ", "))
	if w.Build != nil {
		name := cmp.Or(w.Build.Dockerfile, "Dockerfile")
		if !filepath.IsAbs(name) {
			name = filepath.Join(w.Build.Context, name)
		}
		// What cannot be read is the build's to tell.
		if content, err := os.ReadFile(name); err == nil && bytes.Contains(content, []byte("CGO_ENABLED=0")) {
			text += fmt.Sprintf("; and %q says CGO_ENABLED=0, which leaves the C code out: make that 1, and link statically (-ldflags '-extldflags -static') or end on an image with a libc", name)
		}
	}
	a.d.warn(text)
}

func (a *apply) checkSource(w wantedAgent) error {
	now, err := a.d.o.SourceHash(w.Agent.Name)
	if err == nil && now != w.code {
		err = runtime.ErrSourceChanged
	}
	return err
}

func (a *apply) imageLabels(w wantedAgent) map[string]string {
	labels := a.d.ourLabels()
	labels[labelAgent], labels[labelCode], labels[labelBuild] = w.Agent.Name, w.code, w.build
	return labels
}

func (a *apply) loadImage(ctx context.Context, w wantedAgent) error {
	roots, err := certificateRoots(rootFiles)
	if err != nil {
		return err
	}
	id, made, err := a.e.loadAgentImage(ctx, agentImage{
		tag: w.Image, program: w.program, arch: a.e.facts.Arch, roots: roots, labels: a.imageLabels(w),
	})
	if made {
		a.d.keepImage(stage{ID: id, Image: w.Image, Engine: a.e.facts.ID})
	}
	return err
}

// buildImage makes the image with the project's Dockerfile.
func (a *apply) buildImage(ctx context.Context, w wantedAgent) error {
	if w.Build == nil {
		return fault.New(fault.Environment, "install Go from https://go.dev/dl", "there is no Go toolchain to build agent %q with, and no build in its Compose file", w.Agent.Name)
	}
	build := a.dockerfile(w.Service)
	build.labels = a.imageLabels(w)
	l, err := a.d.logins(ctx)
	if err == nil {
		build.logins, err = l.everywhere(ctx)
		err = a.d.warnLogin(ctx, err)
	}
	if err != nil {
		return err
	}
	_, stages, err := a.e.buildDockerfile(ctx, build, a.p.Output())
	a.d.keepStages(ctx, a.e, w.Image, stages, err == nil)
	if err != nil {
		return err
	}
	command, err := a.imageCommand(ctx, w.Image)
	if err != nil {
		return err
	}
	a.warnDeaf(w, command)
	return a.checkSource(w)
}

// removeUnused removes images and programs of the project that nothing uses any more. It
// is only about space: what it cannot remove now, the next one will.
func (d *Driver) removeUnused(ctx context.Context, t target, l look) {
	var tags []string
	for _, a := range t.agents {
		tags = append(tags, a.Image)
	}
	_ = d.dropImages(ctx, l.e, l, tags)
	_ = d.dropNames(ctx, l.e, tags)
	d.removeStages(ctx, l.e, func(s stage) bool { return !slices.Contains(tags, s.Image) })
	programs, err := os.ReadDir(d.place.build)
	if err != nil {
		return
	}
	for _, program := range programs {
		path := filepath.Join(d.place.build, program.Name())
		if !slices.ContainsFunc(t.agents, func(a wantedAgent) bool { return a.program == path }) {
			_ = os.RemoveAll(path)
		}
	}
}
