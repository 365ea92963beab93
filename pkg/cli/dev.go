package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/dev"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/claim"
)

type devOptions struct {
	poll bool
	keep bool
}

func newDev(a *app) *cobra.Command {
	var o devOptions
	cmd := &cobra.Command{
		Use:        "dev",
		SuggestFor: []string{"watch", "reload", "serve"},
		Short:      "run the project, and reload it at every save",
		GroupID:    groupRun,
		Long: "Bring the project up, show what its agents print, and replace an agent at every save: the new one is built and " +
			"ready before it gets the requests, and the old one finishes what it accepted. No request is refused, and no " +
			"turn is lost. When a build fails or a new agent does not get ready, the old one goes on, and the next save is " +
			"tried again.\n\n" +
			"What makes no difference to an agent reloads nothing: the same content, editors' temporary files, what " +
			".gitignore, .dockerignore and watch.ignore name. A change of flisk.yaml, of an env file or of " +
			"compose.override.yaml is applied as flisk up would.\n\n" +
			"Ctrl-C stops everything: turns in flight are finished first. A second one kills what is left. With --keep " +
			"everything goes on, and only what old code still does is waited for.",
		Example: examples(
			"flisk dev", "run the project of this directory",
			"flisk dev --poll", "where the operating system tells of no changes",
			"flisk dev --keep", "leave everything running at the end",
			"flisk dev --json | jq 'select(.event == \"reloaded\")'", "a line of JSON for every event",
		),
		Args: positional(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			progress := console.Silent()
			if !a.global.json {
				progress = console.NewProgress(a.streams.Out, "") // all of it is the product
			}
			d := &devRun{app: a, o: o, progress: progress, screen: newDevScreen(a, progress)}
			defer d.screen.close()
			return a.serving(cmd.Context(), progress, d.ending, func(ctx context.Context, force <-chan struct{}) error {
				return d.run(ctx, force)
			})
		},
	}
	cmd.Flags().BoolVar(&o.poll, "poll", false, "look at the files in intervals")
	cmd.Flags().BoolVar(&o.keep, "keep", false, "leave what runs when it ends")
	return cmd
}

func (d *devRun) run(ctx context.Context, force <-chan struct{}) error {
	a := d.app
	starting := *a // what is odd at the start is told as all that follows, and each reload would say it again
	starting.odd = func(text string) { d.screen.warn(errors.New(text)) }
	o, err := starting.open(ctx, force)
	if err != nil {
		return err
	}
	starting.noteUnanswered(o)
	if err := a.refuseMove(ctx, o); err != nil {
		return err
	}
	alone, err := a.onlyDev(o)
	if err != nil {
		return err
	}
	defer alone.Close() // which gives the place up
	d.force, d.choice, d.began = force, o.choice, o.project
	d.look = make(chan struct{}, 1)
	d.eyes = eyes{poll: d.o.poll, warn: d.screen.warn, alarm: d.screen.alarm}
	if err := d.eyes.open(ctx, o.project); err != nil {
		return err
	}
	ctx, d.unread = context.WithCancel(ctx)
	var place sync.WaitGroup
	place.Go(func() { d.watchPlace(ctx) })
	defer func() { d.unread(); place.Wait() }()
	err = dev.Run(ctx, dev.Options{
		Load: d.load, Next: d.eyes.next, Tell: d.tell, Progress: d.progress, Reloads: console.Silent(), Look: d.look, Keep: d.o.keep,
	})
	d.logs.stop()
	return errors.Join(err, d.eyes.close())
}

// ending is what the first signal comes to, for people.
func (d *devRun) ending() (label, text string) {
	switch {
	case !d.screen.serving():
		return "ending", "what this run has begun to start is taken back"
	case !d.o.keep:
		return "stopping", "turns in flight are finished first; Ctrl-C again kills them"
	case d.screen.draining():
		return "ending", "turns in flight on old code are finished first; Ctrl-C again kills them"
	}
	return "ending", "what runs goes on"
}

// onlyDev keeps a second loop off a project: both would reload it. Closing what it
// returns gives the place up.
func (a *app) onlyDev(o *opened) (io.Closer, error) {
	path := a.memoryPath(o.project) + ".dev"
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := claim.File(path)
	if errors.Is(err, claim.ErrLocked) {
		return nil, fault.New(fault.Environment, "go on with that one; or run a second copy beside it: "+a.command("dev --instance NAME"),
			"a flisk dev of %s runs already", a.ofInstance(o.project.Name))
	}
	return f, err
}

// devRun is one run of "flisk dev".
type devRun struct {
	app      *app
	o        devOptions
	progress *console.Progress
	screen   *devScreen
	force    <-chan struct{}
	choice   choice           // where it runs, for as long as it does
	began    *project.Project // as it was then; its directory, ID and name stay
	unread   func()           // ends everything, because nobody reads what is said
	look     chan struct{}    // has a token when a log says that something may have happened
	eyes     eyes
	logs     follower

	driver runtime.Driver // of the last load
	url    string         // of the gateway
	names  []string       // of the agents whose logs are followed
	looked time.Time      // when look gets, or got, its last token; of the goroutine of logs
}

// load implements dev.Options.
func (d *devRun) load(ctx context.Context, told dev.Told, attached bool) (dev.Stack, error) {
	p, change, err := d.eyes.read(ctx, d.settings)
	if err != nil {
		return dev.Stack{}, err
	}
	if _, err := regenerate(p, console.Silent()); err != nil {
		return dev.Stack{}, err
	}
	reloading := *d.app
	hash, still := d.eyes.forDriver(ctx)
	reloading.loop = &driverLoop{
		told: told, attached: attached, hash: hash, still: still,
		warn: func(text string) { d.screen.warn(errors.New(text)) },
	}
	driver, err := d.app.newDriver(&reloading, d.choice.on, p, d.force)
	if err != nil {
		return dev.Stack{}, err
	}
	d.driver = driver
	s := dev.Stack{Driver: driver, Agents: map[string]int{}, Change: change, Fresh: d.eyes.fresh, Close: func() {}}
	for _, a := range p.Agents {
		s.Agents[a.Name] = a.Replicas
	}
	if c, ok := driver.(io.Closer); ok {
		s.Close = func() { _ = c.Close() } // connections, to a program that notices
	}
	if names := p.AgentNames(); !slices.Equal(names, d.names) {
		d.names = names
		d.screen.show(names)
		d.logs.follow(driver, d.log)
	}
	return s, nil
}

// settings loads the project, and tells what is odd of it.
func (d *devRun) settings() (*project.Project, error) {
	p, warnings, err := project.Load(d.began.Dir) // by its path: "." stays what it was when the directory is replaced
	if err != nil {
		return nil, err
	}
	if p.ID != d.began.ID {
		return nil, fault.New(fault.Usage, fmt.Sprintf("put id: %s back; or end this, and begin anew under the other id", d.began.ID),
			"the id in %s is another one now, which makes it another project", project.FileName)
	}
	for _, w := range warnings {
		d.screen.warn(errors.New(w.String()))
	}
	if unused := overrideUnused(p, d.choice.on); unused != "" {
		d.screen.warn(errors.New(unused))
	}
	if p.Runtime != d.began.Runtime && p.Runtime != project.Auto && p.Runtime != d.choice.on {
		d.screen.warn(fault.New(fault.Usage, "to move it, end this with Ctrl-C and begin anew", "runtime: %s in %s changes nothing now: what runs stays on %s", p.Runtime, project.FileName, d.choice.on))
	}
	return p, nil
}

// placeEvery is how often it is looked where the project's directory is.
const placeEvery = 2 * time.Second

// watchPlace says, once, that the way to the project leads to another copy of it
// now: whoever turned a link saves there, and waits for a reload.
func (d *devRun) watchPlace(ctx context.Context) {
	way, err := filepath.Abs(d.app.dir())
	if err != nil {
		return // nobody knows where this runs
	}
	led, err := filepath.EvalSymlinks(way) // the project's directory, or one in it
	if err != nil {
		return // it is going away
	}
	tick := time.NewTicker(placeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now, err := filepath.EvalSymlinks(way); err == nil && now != led {
			d.screen.warn(fault.New(fault.Usage, "to run that one, end this with Ctrl-C and begin anew", "%q leads to %q now, and this flisk dev goes on with %q", way, now, d.began.Dir))
			return
		}
	}
}

// lookPause is how often a line of a log is a reason to look, at most.
const lookPause = 500 * time.Millisecond

// log shows a line of an agent's. One of its start, or of who keeps it alive, is
// told before the next look would find out.
func (d *devRun) log(l runtime.Line) error {
	now := time.Now()
	if ours.MatchString(l.Text) && !d.looked.After(now) { // else that look is still to come
		if d.looked = d.looked.Add(lookPause); d.looked.Before(now) {
			d.looked = now
		}
		time.AfterFunc(d.looked.Sub(now), func() {
			select {
			case d.look <- struct{}{}:
			default:
			}
		})
	}
	if err := d.screen.log(l); err != nil {
		d.unread()
		return err
	}
	return nil
}

// tell implements dev.Options.
func (d *devRun) tell(e dev.Event) {
	if e.Kind == dev.Stopped {
		d.logs.stop() // it is the last of all
		select {
		case <-d.force:
			if e.Outcome == dev.Ended {
				e.Outcome = dev.Killed
			}
		default:
		}
	}
	d.screen.tell(e)
	switch {
	case e.Kind == dev.Stopped:
		d.bye(e)
	case e.Kind == dev.Reloaded && d.url == "":
		d.url = e.Report.URL
		d.greet()
	case e.Kind == dev.Reloaded && d.url != e.Report.URL:
		d.url = e.Report.URL
		d.screen.fields(d.gateway())
	}
	if d.app.streams.Out.Failed() != nil {
		d.unread()
	}
}

func (d *devRun) gateway() console.Field {
	return console.Field{Label: "gateway", Value: console.Cell{Text: d.url, Style: console.Accent}}
}

// greet says what runs, where, and what to try.
func (d *devRun) greet() {
	try := d.app.command(`turn "hello" -s s1`)
	if len(d.names) > 1 {
		try += " --agent " + d.names[0]
	}
	fields := []console.Field{d.gateway(), {Label: "runtime", Value: console.Cell{Text: d.choice.String()}}}
	on := &opened{driver: d.driver}
	if engine, err := on.engine(context.Background()); err == nil { // else the next look says so
		fields = append(fields, engine.fields()...)
	}
	watching := fmt.Sprintf("%d files", d.eyes.seen.Len())
	if every := d.eyes.watcher.Polls(); every > 0 {
		watching += fmt.Sprintf(", looking every %s", console.Span(every))
	}
	if d.o.keep {
		watching += "; Ctrl-C leaves it running"
	} else {
		watching += "; Ctrl-C stops everything"
	}
	d.screen.fields(append(fields,
		console.Field{Label: "try", Value: console.Cell{Text: try, Style: console.Accent}},
		console.Field{Label: "watching", Value: console.Cell{Text: watching}},
	)...)
}

// bye says what is left.
func (d *devRun) bye(e dev.Event) {
	d.screen.close()
	switch e.Outcome {
	case dev.Ended:
		d.screen.fields(console.Field{Label: "stopped", Value: console.Cell{Text: d.app.ofInstance(d.began.Name), Style: console.Strong}},
			console.Field{Label: "kept", Value: console.Cell{Text: "every conversation"}})
	case dev.NotStarted:
		d.screen.fields(console.Field{Label: "ended", Value: console.Cell{Text: "nothing of " + d.app.ofInstance(d.began.Name) + " was started"}})
	case dev.LeftRunning:
		label := "left running"
		if d.url == "" {
			label = "still runs" // from before
		}
		d.screen.fields(console.Field{Label: label, Value: console.Cell{Text: e.Report.URL, Style: console.Accent}},
			console.Field{Label: "stop it", Value: console.Cell{Text: d.app.command("down"), Style: console.Accent}})
	}
}

// serving does work that goes on until somebody wants its end: the first signal
// ends ctx, and work brings everything to its end; the second closes force. A
// terminal that closes is the first one, too. ending says what the first one comes to.
func (a *app) serving(ctx context.Context, progress *console.Progress, ending func() (label, text string), work func(ctx context.Context, force <-chan struct{}) error) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	force := make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	hangups, stopHangups := catchHangups()
	defer stopHangups()

	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for seen := (stopSignals{}); ; {
			select {
			case <-over:
				return
			case <-hangups:
				end()
			case sig := <-signals:
				a.freshLine()
				switch seen.count(sig, time.Now()) {
				case 1:
					label, text := ending()
					progress.Note(label, console.Warn, text)
					end()
				case 2:
					progress.Note("forced", console.Bad, "killing what is left")
					close(force)
				}
			}
		}
	})
	err := work(ctx, force)
	close(over)
	wg.Wait()
	select {
	case <-force:
		return fault.New(fault.Interrupted, "", "stopped by force; turns that were running are cut off, saved ones are safe")
	default:
		return err
	}
}
