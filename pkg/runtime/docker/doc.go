// Package docker runs a stack as containers, over the Engine API.
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
