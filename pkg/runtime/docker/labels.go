package docker

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/stack/composefile"
)

// Labels of everything that flisk makes. An object without labelProject is
// somebody else's and is never touched.
const (
	labelProject    = composefile.LabelProject  // id of the project
	labelInstance   = composefile.LabelInstance // of a second copy of the project
	labelAgent      = composefile.LabelAgent    // name
	labelReplica    = "dev.flisk.replica"       // "bot-1"
	labelGeneration = "dev.flisk.generation"    // 1, 2, 3 …
	labelCode       = "dev.flisk.code"          // hash of the source
	labelSettings   = "dev.flisk.settings"      // identifies the settings; tells nothing of them
	labelContainer  = "dev.flisk.container"     // of a container that flisk made: one of a kind, see isOwn
	labelReader     = "dev.flisk.reader"        // of a container that is there to look at a volume, and never runs
	labelRoom       = "dev.flisk.room"          // where the owner of a stack is that is made to be thrown away
	labelRoomView   = "dev.flisk.room-view"     // which file system that directory is in: see roomView
	labelInputs     = "dev.flisk.inputs"        // of an image: hash of all that it was made from
	labelBuild      = "dev.flisk.build"         // how an agent's image was to be built: see buildOf
)

// Compose's own labels: "docker compose ls", "ps", "logs", "top" and "down" go by
// them, and by nothing else.
const (
	composeProject   = "com.docker.compose.project"
	composeService   = "com.docker.compose.service"
	composeNumber    = "com.docker.compose.container-number"
	composeOneOff    = "com.docker.compose.oneoff"
	composeHash      = "com.docker.compose.config-hash"
	composeVersion   = "com.docker.compose.version"
	composeDir       = "com.docker.compose.project.working_dir"
	composeFiles     = "com.docker.compose.project.config_files"
	composeImage     = "com.docker.compose.image"
	composeDependsOn = "com.docker.compose.depends_on"
	composeNetwork   = "com.docker.compose.network"
	composeVolume    = "com.docker.compose.volume"
)

// madeBy is what composeVersion says of what flisk made.
const madeBy = "flisk"

// ourLabels are those of every object of the stack.
func (d *Driver) ourLabels() map[string]string {
	labels := map[string]string{labelProject: d.o.Stack.ID}
	if d.o.Stack.Instance != "" {
		labels[labelInstance] = d.o.Stack.Instance
	}
	if d.o.Room != "" {
		labels[labelRoom], labels[labelRoomView] = d.o.Room, roomView()
	}
	return labels
}

// ours reports whether labels are those of this project and of this instance of
// it. A container may have them of its image: see isOwn.
func (d *Driver) ours(labels map[string]string) bool {
	return labels[labelProject] == d.o.Stack.ID && labels[labelInstance] == d.o.Stack.Instance
}

// objectLabels are those of a network or a volume that a Compose file declares
// under a key.
func (d *Driver) objectLabels(declared map[string]string, kind, key string) map[string]string {
	labels := maps.Clone(declared)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, d.ourLabels())
	labels[composeProject], labels[kind], labels[composeVersion] = d.o.Stack.ContainerProject(), key, madeBy
	return labels
}

// serviceLabels are those of a container of a service.
func (t target) serviceLabels(d *Driver, s composefile.Service, settings string, number int) map[string]string {
	labels := maps.Clone(map[string]string(s.Labels))
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, d.ourLabels())
	labels[labelSettings] = settings
	labels[composeProject], labels[composeService] = d.o.Stack.ContainerProject(), s.Name
	labels[composeNumber], labels[composeOneOff] = strconv.Itoa(number), "False"
	labels[composeHash], labels[composeVersion] = settings, madeBy
	labels[composeDir], labels[composeFiles] = t.dir, strings.Join(t.files, ",")
	var needs []string
	for _, name := range slices.Sorted(maps.Keys(s.DependsOn)) {
		needs = append(needs, name+":"+s.DependsOn[name].Condition+":false")
	}
	labels[composeDependsOn] = strings.Join(needs, ",")
	return labels
}

// refOf is the generation that a container of an agent is. One that plain Compose
// made has none: 0.
func refOf(labels map[string]string) runtime.Ref {
	agent := labels[labelAgent]
	if agent != labels[composeService] { // of its image, which a service has from an agent
		return runtime.Ref{}
	}
	generation, _ := strconv.Atoi(labels[labelGeneration]) // written by flisk, or not there
	replica := labels[labelReplica]
	if replica == "" {
		replica = agent + "-" + labels[composeNumber]
	}
	return runtime.Ref{Agent: agent, Replica: replica, Generation: generation}
}
