// Package docker runs a stack as containers, over the Engine API.
//
// # The driver
//
// A [Driver] has no state of its own. What shall run is the Compose file with
// what people added ([Driver.Up] loads it with pkg/stack/composefile); what runs
// is the engine's containers, told apart by labels, and the first line of the
// live routes, which says which of them serve. The planner of pkg/runtime makes
// steps of the difference, and apply does them.
//
// Everything on the engine carries the project's id as a label, and Compose's own
// labels, so that its commands work on the stack; nothing without the id is ever
// touched, and of containers and images nothing that has it of an image only. What plain Compose started from the project's files carries it, too,
// and an up takes over from it.
//
// # Replacing
//
// The gateway reads its routes from a directory below $FLISK_HOME. A generation
// of an agent has a network alias that no other ever has ("bot-1-g017"), and the
// routes name nothing else: the new one is started and ready, the routes are
// replaced by a rename, the gateway is asked until it answers by them, and only
// then the old one gets SIGTERM. Its container is removed, and the new one gets
// its name. A plan that fails before the first stop is taken back: what was not
// there when it began is removed, whether or not its answer arrived. Whatever is
// killed in the middle, the next up goes on from what it sees.
//
// # From below
//
// [Resolve] finds the engine that the docker command would talk to. connect
// speaks with it: an engine is the few calls that flisk needs, each with a time
// of its own, and each with the rules that keep conversations safe built in
// (a volume is only removed when it carries the project's label, a stop is never
// cut short, nothing is ever pruned). Images are made in image.go.
//
// # Contexts
//
// A context that ends stops what looks: lists, logs, waits, pulls, builds. What
// changes something is seen through once it was sent, because its answer tells
// what there is to undo; it has a time of its own instead. A stop waits for the
// whole grace of its container, whatever becomes of the caller's context: only a
// closed force channel cuts it short.
package docker
