package turn

// Header names, in the form that net/http canonicalises to. Clients may write
// them in any case.
const (
	// HeaderSession names the session of a request and, on every answer to a
	// turn, the session that took it.
	HeaderSession = "X-Session-Id"
	// HeaderKey carries the turn key, bare or as the quoted string of the IETF
	// draft "The Idempotency-Key HTTP Header Field".
	HeaderKey = "Idempotency-Key"
	// HeaderReplayed is "true" on an answer that was read from the store and
	// not produced by this request.
	HeaderReplayed = "Idempotent-Replayed"
	// HeaderTurn is the id of the turn that an answer or a problem is about.
	HeaderTurn = "Turn-Id"
	// HeaderCode is the source hash of the code that answered.
	HeaderCode = "Flisk-Code"
	// HeaderRoutes is the hash of the route table that a gateway answered by.
	// A changed value proves that the gateway has let go of the old routes.
	HeaderRoutes = "Flisk-Routes"
	// HeaderHold asks an agent under verification to stop at a point of the
	// turn; see [Hold].
	HeaderHold = "X-Flisk-Hold"
)

// These are the only values that their headers take.
const (
	ReplayedTrue = "true"
	JSONType     = "application/json"
	ProblemType  = "application/problem+json"
)
