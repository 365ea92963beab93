package docker

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/toolchain"
)

// build makes an agent's image: from a static program that is built here, where
// there is a Go toolchain, no C code, and the override says nothing of how to
// build, and by its Dockerfile otherwise. One that was made from the same source
// in the same way is there already, and needs neither. What comes back is the agent
// as it was built.
func (a *apply) build(ctx context.Context, w wantedAgent) (wantedAgent, error) {
	was, ok, err := a.e.inspectImage(ctx, w.Image)
	if err != nil {
		return w, err
	}
	if ok && was.Config != nil && was.Architecture == a.e.facts.Arch && a.d.ours(was.Config.Labels) &&
		was.Config.Labels[labelCode] == w.code && was.Config.Labels[labelBuild] == w.build {
		return w, nil
	}
	a.built = true
	began := time.Now()
	end := a.p.Begin("build " + w.Agent.Name)
	a.rest = append(a.rest, tagged{w.Image, was.ID})
	if w, err = a.buildProgram(ctx, w); errors.Is(err, errNotHere) {
		w, err = a.buildImage(ctx, w)
	} else if err == nil {
		err = a.loadImage(ctx, w)
	}
	end(runtime.Span(time.Since(began)), err)
	return w, err
}

// errNotHere says that the program is not to be built on this machine.
var errNotHere = errors.New("there is no Go toolchain here that is to be used, or it is not enough")

// buildProgram makes the program for the engine's machine. One under a wrong hash
// would be used again when the source goes back to that hash; so there is none
// when runtime.ErrSourceChanged is returned, and one under another name where such a
// program will do.
func (a *apply) buildProgram(ctx context.Context, w wantedAgent) (wantedAgent, error) {
	if w.build != plainly {
		return w, errNotHere
	}
	if exists(w.program) {
		return w, nil
	}
	if _, err := toolchain.Find(ctx); fault.KindOf(err) == fault.Environment && err != nil && ctx.Err() == nil {
		return w, errNotHere
	}
	if err := os.MkdirAll(filepath.Dir(w.program), userOnly); err != nil {
		return w, fault.New(fault.Environment, homeHint, "cannot build agent %q: %w", w.Agent.Name, err)
	}
	// Under a name that nobody looks for, until it is known to be the right program.
	o := toolchain.Options{Agent: w.Agent.Name, Dir: w.Dir, Root: a.d.o.Stack.Dir, Out: w.program + ".new", GOOS: "linux", GOARCH: a.e.facts.Arch, Strip: true}
	defer os.Remove(o.Out) // gone already when it got its name
	c, err := buildWithoutC(ctx, o)
	switch {
	case ctx.Err() != nil:
		return w, cmp.Or(err, context.Cause(ctx))
	case len(c) > 0:
		a.warnC(w, c)
		return w, errNotHere
	}
	if err == nil {
		err = a.checkSource(w)
	}
	if errors.Is(err, runtime.ErrSourceChanged) && a.restless {
		w, err = a.d.unsettled(w, a.e.facts.Arch), nil
	}
	if err == nil {
		err = os.Rename(o.Out, w.program)
	}
	return w, err
}

// buildWithoutC builds, and finds out meanwhile whether the program has C code,
// which takes a tenth of that. Those are the packages with C code then, and there
// is no program. What else is wrong is the build's to tell.
func buildWithoutC(ctx context.Context, o toolchain.Options) (c []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var listing sync.WaitGroup
	listing.Go(func() {
		if c, _ = toolchain.CPackages(ctx, o); len(c) > 0 { // an error is one of the build, too
			cancel() // it is for nothing
		}
	})
	err = toolchain.Build(ctx, o) // what the compiler prints comes back in the error, and only once
	listing.Wait()
	if len(c) > 0 && err == nil {
		err = os.Remove(o.Out)
	}
	return c, err
}

// unsettled is an agent that was built while its source changed.
func (d *Driver) unsettled(w wantedAgent, arch string) wantedAgent {
	w.code = runtime.Unsettled(w.code)
	w.program = d.place.agentProgram(w.Agent.Name, w.code, arch)
	w.Environment = maps.Clone(w.Environment)
	w.Environment["FLISK_CODE"] = &w.code
	return w
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
	return runtime.CheckSource(a.d.o.SourceHash, a.d.o.SourceStill, w.Agent.Name, w.code)
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

// buildImage makes the image with the project's Dockerfile. It gets its name when
// it is known to be made from the source that its label says.
func (a *apply) buildImage(ctx context.Context, w wantedAgent) (wantedAgent, error) {
	if w.Build == nil {
		return w, fault.New(fault.Environment, "install Go from https://go.dev/dl", "there is no Go toolchain to build agent %q with, and no build in its Compose file", w.Agent.Name)
	}
	build := a.dockerfile(w.Service)
	build.labels, build.unnamed = a.imageLabels(w), true
	l, err := a.d.logins(ctx)
	if err == nil {
		build.logins, err = l.everywhere(ctx)
		err = a.d.warnLogin(ctx, err)
	}
	if err != nil {
		return w, err
	}
	id, stages, err := a.e.buildDockerfile(ctx, build, a.p.Output())
	a.d.keepStages(ctx, a.e, w.Image, stages, err == nil)
	if err != nil {
		return w, err
	}
	command, err := a.imageCommand(ctx, id)
	if err != nil {
		return w, err
	}
	a.warnDeaf(w, command)
	switch err = a.checkSource(w); {
	case err == nil:
		return w, a.e.tagImage(ctx, id, w.Image)
	case errors.Is(err, runtime.ErrSourceChanged) && a.restless:
		w = a.d.unsettled(w, a.e.facts.Arch) // the same once more, but for its label
		build.labels, build.unnamed = a.imageLabels(w), false
		_, stages, err = a.e.buildDockerfile(ctx, build, io.Discard)
		a.d.keepStages(ctx, a.e, w.Image, stages, err == nil)
		return w, err
	}
	return w, errors.Join(err, a.e.dropImage(context.WithoutCancel(ctx), stage{ID: id, Engine: a.e.facts.ID}))
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
