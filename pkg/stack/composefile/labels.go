package composefile

// Labels of everything that belongs to a project. Nothing without LabelProject
// is a stack's, whatever it is called.
const (
	LabelProject  = "dev.flisk.project"  // the project's id
	LabelInstance = "dev.flisk.instance" // of a second copy; absent from the first
	LabelAgent    = "dev.flisk.agent"    // the agent's name
	LabelStatic   = "dev.flisk.static"   // hash of the file that the gateway starts with
)
