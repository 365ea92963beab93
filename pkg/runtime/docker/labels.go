package docker

// Labels of everything that flisk makes. An object without labelProject is
// somebody else's and is never touched.
const (
	labelProject    = "dev.flisk.project"    // id of the project
	labelInstance   = "dev.flisk.instance"   // of a second copy of the project
	labelAgent      = "dev.flisk.agent"      // name
	labelReplica    = "dev.flisk.replica"    // "bot-1"
	labelGeneration = "dev.flisk.generation" // 1, 2, 3 …
	labelCode       = "dev.flisk.code"       // hash of the source
	labelSettings   = "dev.flisk.settings"   // identifies the settings; tells nothing of them
	labelInputs     = "dev.flisk.inputs"     // of an image: hash of all that it was made from
)
