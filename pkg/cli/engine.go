package cli

import (
	"context"
	"fmt"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker"
)

// EngineJSON is the Docker engine that a project runs on.
type EngineJSON struct {
	Endpoint string `json:"endpoint"`          // "unix:///var/run/docker.sock"
	Why      string `json:"why"`               // why this one, for people
	Context  string `json:"context,omitempty"` // the docker context that names it
	Version  string `json:"version"`           // "20.10.24"
	API      string `json:"api"`               // the version that is spoken
}

// ServiceJSON is something of the project that is neither an agent nor the
// gateway.
type ServiceJSON struct {
	Name    string `json:"name"`
	Running bool   `json:"running"`
}

// onEngine is a driver that works with a Docker engine.
type onEngine interface {
	Engine(ctx context.Context) (docker.Engine, error)
	ServiceContainer(name string) string
}

// engine is the Docker engine of a project; nil where it runs without one.
func (o *opened) engine(ctx context.Context) (*EngineJSON, error) {
	driver, ok := o.driver.(onEngine)
	if !ok {
		return nil, nil
	}
	e, err := driver.Engine(ctx)
	if err != nil {
		return nil, err
	}
	return &EngineJSON{e.Host, e.Why, e.Context, e.Version, e.API}, nil
}

// fields is the engine's line; none where there is no engine.
func (e *EngineJSON) fields() []console.Field {
	if e == nil {
		return nil
	}
	return []console.Field{{Label: "engine", Value: console.Cell{Text: fmt.Sprintf("%s (%s), Docker %s", e.Endpoint, e.Why, e.Version)}}}
}

func servicesOf(observed runtime.Observed) []ServiceJSON {
	var rows []ServiceJSON
	for _, s := range observed.Services {
		rows = append(rows, ServiceJSON{s.Name, !s.Stopped})
	}
	return rows
}

// serviceFields are a line for each service.
func serviceFields(observed runtime.Observed) (fields []console.Field) {
	for _, s := range observed.Services {
		cell := console.Cell{Text: s.Name + " runs", Style: console.Good}
		if s.Stopped {
			cell = console.Cell{Text: s.Name + " does not run", Style: console.Bad}
		}
		fields = append(fields, console.Field{Label: "service", Value: cell})
	}
	return fields
}
