package composefile

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/stack"
)

// identity refuses an override that would change what things are told apart by: the
// volume with the conversations, the names of agents' images, and labels. It would
// be another stack under plain Compose than what flisk looks for.
func identity(p *Project, s stack.Stack, static []byte) error {
	if name := p.Volumes[volumeKey].Name; name != s.Volume.Name {
		return fault.New(fault.Usage, "take the name out of compose.override.yaml, and set volume in flisk.yaml",
			"volume %q: its name %q is not that of the project's conversations, which is in flisk.yaml: %q", volumeKey, name, s.Volume.Name)
	}
	for _, a := range s.Agents {
		service := p.Services[a.Name]
		if want := s.Image(a.Name); service.Image != "" && service.Image != want {
			return fault.New(fault.Usage, "take it out of compose.override.yaml; build says how it is made: services: {"+a.Name+": {build: {dockerfile: NAME}}}",
				"service %q: image: flisk makes an agent's image, and would give it the name %q in place of what has it now", a.Name, service.Image)
		}
		if err := conversations(service); err != nil {
			return err
		}
	}
	return labels(p, s, static)
}

// conversations refuses an agent that would write its conversations anywhere but
// into the project's volume.
func conversations(agent Service) error {
	wrong := func(target string) bool {
		target = path.Clean(target)
		return target == stack.DataDir || strings.HasPrefix(target, stack.DataDir+"/")
	}
	refuse := func(target string) error {
		return fault.New(fault.Usage, "mount it elsewhere, and not below "+stack.DataDir,
			"service %q: volumes: %q is where its conversations are, in the volume of the project", agent.Name, target)
	}
	there := false
	for _, v := range agent.Volumes {
		ours := v.Type == types.VolumeTypeVolume && v.Source == volumeKey && path.Clean(v.Target) == stack.DataDir && !v.ReadOnly
		switch {
		case ours && (v.Volume == nil || v.Volume.Subpath == ""):
			there = true
		case wrong(v.Target):
			return refuse(v.Target)
		}
	}
	for _, tmpfs := range agent.Tmpfs {
		if target, _, _ := strings.Cut(tmpfs, ":"); wrong(target) {
			return refuse(target)
		}
	}
	if !there {
		return refuse(stack.DataDir)
	}
	return nil
}

// reserved are the beginnings of the names of labels that say what something is.
var reserved = []string{"dev.flisk.", "com.docker.compose."}

// labels refuses labels that are flisk's or Compose's to set.
func labels(p *Project, s stack.Stack, static []byte) error {
	base := types.Labels{LabelProject: s.ID}
	if s.Instance != "" {
		base[LabelInstance] = s.Instance
	}
	for _, name := range slices.Sorted(maps.Keys(p.Services)) {
		var set types.Labels
		switch agent := slices.ContainsFunc(s.Agents, func(a stack.Agent) bool { return a.Name == name }); {
		case agent:
			set = with(base, LabelAgent, name)
		case name == stack.GatewayService:
			set = with(base, LabelStatic, staticHash(static))
		}
		if err := reservedLabels("service", name, p.Services[name].Labels, set); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.Volumes)) {
		var set types.Labels
		if key == volumeKey && !bool(p.Volumes[key].External) { // Compose allows that none
			set = base
		}
		if err := reservedLabels("volume", key, p.Volumes[key].Labels, set); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.Networks)) {
		var set types.Labels
		if key == networkKey {
			set = base
		}
		if err := reservedLabels("network", key, p.Networks[key].Labels, set); err != nil {
			return err
		}
	}
	return nil
}

// reservedLabels refuses labels of one thing unless the reserved ones among them
// are those that flisk set.
func reservedLabels(kind, name string, labels, set types.Labels) error {
	isReserved := func(label string) bool {
		return slices.ContainsFunc(reserved, func(prefix string) bool { return strings.HasPrefix(label, prefix) })
	}
	all := with(labels)
	for label := range set { // one that was taken away is changed, too
		if _, ok := labels[label]; !ok {
			all[label] = ""
		}
	}
	for _, label := range slices.Sorted(maps.Keys(all)) {
		if was, ours := set[label]; isReserved(label) && (!ours || was != all[label]) {
			return fault.New(fault.Usage, "take it out of compose.override.yaml: labels that begin with "+strings.Join(reserved, " or ")+" say what belongs to whom",
				"%s %q: the label %s is set by flisk itself", kind, name, label)
		}
	}
	return nil
}

// staticHash tells the gateway's static files apart.
func staticHash(static []byte) string {
	sum := sha256.Sum256(static)
	return hex.EncodeToString(sum[:6])
}
