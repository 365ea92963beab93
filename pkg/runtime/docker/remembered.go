package docker

import (
	"encoding/json"
	"os"
)

// memory is what is remembered of a project between runs: on which engine and in
// which volume its conversations are, and whose may be left alone. Without it
// another engine, or an emptied volume, would look like a new project.
type memory struct {
	Version  int    `json:"version"`
	EngineID string `json:"engine_id"`
	Engine   string `json:"engine"`    // its address, for people
	Volume   string `json:"volume"`    // its name
	VolumeID string `json:"volume_id"` // what its VOLUME file says; "" until an agent has made it

	// Port is the one of an instance, which may not be that of flisk.yaml; 0 is
	// that one.
	Port int `json:"port,omitempty"`

	// Agents are those that ever had a place to write conversations to.
	Agents []string `json:"agents"`

	// Without are those of Agents that have sessions, are not in the stack, and
	// need not be: somebody said so.
	Without []string `json:"without_agents,omitempty"`
}

const memoryVersion = 1

// rememberedVolume is the name of the project's volume, "" when nothing is
// remembered.
func (p place) rememberedVolume() string {
	var known memory
	data, err := os.ReadFile(p.memory)
	if err != nil || json.Unmarshal(data, &known) != nil {
		return ""
	}
	return known.Volume
}
