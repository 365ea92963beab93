// Package dockertest plays a Docker engine in memory: an HTTP server on a Unix
// socket that speaks the part of the Engine API that flisk uses, and starts what
// containers hold as local processes. A driver's tests run on it where there is
// no Docker, fail it at any call, and read what it was asked.
//
// # What is played
//
// Containers (create, start, stop, kill, restart policies, wait, rename, remove,
// list, inspect, health checks, logs, exec, archive), images (load, inspect,
// list, remove, tag; pull from [Options.Registry], build by [Options.Build]),
// networks with their aliases, volumes, the events of starts, exits and removals.
// Each as API 1.41, 1.44 or 1.52 has it: the oldest and the newest version, one
// network at create below 1.44, the fields that an older engine ignores (see
// [Engine.Ignored]).
//
// A container of a loaded or built image is a process of the image's program on
// this machine: with its environment, its mounts as directories, and FLISK_LISTEN
// turned into a port of its own on loopback, which aliases resolve to. It has
// no root file system of its own, no user, no limits, no capabilities, and no
// published ports. A container of "traefik" is a proxy in this process that
// reads the mounted configuration and refuses what it does not know. One of
// another image idles, and accepts connections on published ports only to close
// them.
//
// # What is not
//
// Everything else is answered with 501 and the test sees it in [Engine.Calls]:
// other events, prunes, commits, attach, resize, the classic builder's language,
// swarm. Nothing is invented to look like success. A write into a container that
// runs also fails the test: flisk replaces containers, and changes none.
package dockertest
