// Package gateway is the built-in proxy: the one address of a stack whose
// agents are local processes. It serves the same route table ([stack.Routes])
// that Traefik's files are written from.
//
// Make one with [New], give it a table with [Gateway.SetRoutes], and run it with
// [Gateway.Serve]. The owner of the replicas drives it with the table alone: an
// endpoint that is listed is one that serves. A replica is listed once it is
// ready and left out when it shall get no more requests or is dead. To replace
// one and lose nothing:
//
//  1. start the new replica and wait until it is ready;
//  2. SetRoutes with the new endpoint in the place of the old one: from its
//     return on no request is given to the old one;
//  3. [Gateway.Drained] returns when the old one's answers are copied whole and
//     every idle connection to it is closed;
//  4. send the old one SIGTERM.
//
// # What it promises about a request
//
//   - It is sent at most once. Only a failed dial is tried again, on another
//     replica or later: then nothing was sent. A request that was written and
//     lost its agent is answered 502 agent-lost, and the client's retry with the
//     same turn key finds out what became of the turn. (net/http itself repeats
//     a GET, HEAD or OPTIONS on a connection that the agent had closed.)
//   - The body is read whole, bounded in size and time, before any replica hears
//     of it, so a slow client cannot keep a session busy.
//   - While no replica takes connections it is held, oldest first, for a bounded
//     time and up to a bounded number per agent. The agent's ready path is not
//     held: "not now" is an answer there. A held request whose client goes is
//     dropped.
//   - A session keeps to one replica as long as that is listed; when it cannot
//     be dialled, the next one in the session's own order gets the request at
//     once. This is for warm caches only: correctness never depends on it.
//   - An answer is passed on as it arrives, and every answer says by which table
//     it was made (Flisk-Routes). What the gateway itself refuses is an RFC 9457
//     problem of pkg/turn. Only what is not HTTP, or has headers beyond all
//     measure, gets net/http's own plain answer.
//
// All methods of [Gateway] may be called at once from any goroutine.
package gateway
