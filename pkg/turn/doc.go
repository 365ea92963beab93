// Package turn is the wire contract between a client, a gateway and an agent:
// paths, headers, JSON bodies, problem types with their status codes, the rules
// for session ids and turn keys, and the environment that an agent is started
// with.
//
// Both halves of flisk import it: the command half to send turns and to start
// agents, the library half to answer them. It imports nothing but the standard
// library. All functions are pure and safe for concurrent use.
package turn

// Contract is the version of this contract. An agent reports it at /health; a
// command that meets another number says so instead of guessing.
const Contract = 1
