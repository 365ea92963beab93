// Package traefik writes what Traefik is configured with where it is the gateway
// of a stack: [Static], which it reads when it starts, and [Dynamic], the route
// table, which it reads again whenever the file is replaced.
//
// Replace the dynamic file by a rename within its directory, which is mounted as
// a whole: a file that is written in place is empty for a moment, and then every
// path is unknown. The temporary file must not end in .yaml, .yml or .toml.
//
// # What is different from the built-in gateway
//
// Both serve the same [stack.Routes] and are held against the same table of
// requests, pkg/gateway/routetest. What Traefik cannot do is in that table as
// its own:
//
//   - Its refusals are plain text, with the right status and no problem type:
//     403, 404, and 502 where the built-in gateway says 503 because no replica
//     takes connections.
//   - It does not read a body before it forwards it, so a client's chunked body
//     stays chunked, a slow one occupies the agent's connection, and one that is
//     too large is refused by the agent.
//   - A path with "." or ".." segments, or with empty ones, is cleaned and then
//     routed; "%6f" is read as "o". Agents see the path that was routed. An escaped
//     slash is 400, and "OPTIONS *" is 200; neither answer has the routes' hash.
//   - ";" in a query is written as "%3B".
//   - A held request is tried again every 100 to 200 ms, in no order, for 10 s
//     and not for 30 s.
//   - Replicas are taken in turn, and not by session. (The session's lock makes
//     that right; it is only not as fast.)
package traefik
