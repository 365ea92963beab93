package traefik

import (
	"strconv"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// entryPoint is the name of the only one.
const entryPoint = "web"

// throttle is how long Traefik waits for more changes of a file before it takes
// one on. Its default is two seconds.
const throttle = 100 * time.Millisecond

// bodyTime is how long a client may take to send a request. It goes on while the
// request is held, so it is longer than holdTime by what the built-in gateway
// gives a body.
const bodyTime = holdTime + 30*time.Second

type static struct {
	Global      global           `yaml:"global"`
	Log         logging          `yaml:"log"`
	EntryPoints map[string]entry `yaml:"entryPoints"`
	Providers   providers        `yaml:"providers"`
}

type global struct {
	CheckNewVersion    bool `yaml:"checkNewVersion"`
	SendAnonymousUsage bool `yaml:"sendAnonymousUsage"`
}

type logging struct {
	Level   string `yaml:"level"`
	NoColor bool   `yaml:"noColor"`
}

type entry struct {
	Address          string           `yaml:"address"`
	ForwardedHeaders forwardedHeaders `yaml:"forwardedHeaders"`
	HTTP             entryHTTP        `yaml:"http"`
	Transport        transport        `yaml:"transport"`
}

type forwardedHeaders struct {
	Connection []string `yaml:"connection"`
}

type entryHTTP struct {
	AliasHeadersStrategy  string            `yaml:"aliasHeadersStrategy"`
	EncodeQuerySemicolons bool              `yaml:"encodeQuerySemicolons"`
	EncodedCharacters     encodedCharacters `yaml:"encodedCharacters"`
}

// encodedCharacters are those that a path may have as an escape.
type encodedCharacters struct {
	AllowEncodedSlash         bool `yaml:"allowEncodedSlash"`
	AllowEncodedBackSlash     bool `yaml:"allowEncodedBackSlash"`
	AllowEncodedNullCharacter bool `yaml:"allowEncodedNullCharacter"`
	AllowEncodedSemicolon     bool `yaml:"allowEncodedSemicolon"`
	AllowEncodedPercent       bool `yaml:"allowEncodedPercent"`
	AllowEncodedQuestionMark  bool `yaml:"allowEncodedQuestionMark"`
	AllowEncodedHash          bool `yaml:"allowEncodedHash"`
}

type transport struct {
	LifeCycle          lifeCycle          `yaml:"lifeCycle"`
	RespondingTimeouts respondingTimeouts `yaml:"respondingTimeouts"`
}

type lifeCycle struct {
	GraceTimeOut duration `yaml:"graceTimeOut"`
}

type respondingTimeouts struct {
	ReadTimeout duration `yaml:"readTimeout"`
}

type providers struct {
	ProvidersThrottleDuration duration     `yaml:"providersThrottleDuration"`
	File                      fileProvider `yaml:"file"`
}

type fileProvider struct {
	Directory string `yaml:"directory"`
	Watch     bool   `yaml:"watch"`
}

// Static is the configuration that Traefik starts with. No API, no dashboard, no
// provider but files: it needs no access to the engine, and shows nothing of
// itself.
func Static(s stack.Stack) ([]byte, error) {
	return staticAt(s, ":"+strconv.Itoa(stack.GatewayPort), stack.GatewayRoutes)
}

func staticAt(s stack.Stack, address, directory string) ([]byte, error) {
	return encode(static{
		Log: logging{Level: "ERROR", NoColor: true}, // at WARN it says the same at every start
		EntryPoints: map[string]entry{entryPoint: {
			Address: address,
			// A client that lists one of these in Connection would have it taken
			// away here; they stay until the middleware "stamp" removes that header.
			ForwardedHeaders: forwardedHeaders{Connection: []string{turn.HeaderSession, turn.HeaderKey, "If-Match"}},
			HTTP: entryHTTP{
				// "x_session_id" is another header than X-Session-Id here and the same
				// one to a CGI-like reader behind.
				AliasHeadersStrategy: "delete",
				// Else ";" becomes "&", and a value two.
				EncodeQuerySemicolons: true,
				// No session id and no agent has any of them, and an escaped slash is
				// read as one thing here and as another behind.
				EncodedCharacters: encodedCharacters{},
			},
			Transport: transport{
				// Agents stop first, and their last answers go through here.
				LifeCycle:          lifeCycle{GraceTimeOut: duration(s.LongestGrace())},
				RespondingTimeouts: respondingTimeouts{ReadTimeout: duration(bodyTime)},
			},
		}},
		Providers: providers{
			ProvidersThrottleDuration: duration(throttle),
			File:                      fileProvider{Directory: directory, Watch: true},
		},
	})
}

// duration is written as Traefik reads it: "1m40s".
type duration time.Duration

// MarshalYAML implements the encoder's interface.
func (d duration) MarshalYAML() (any, error) { return time.Duration(d).String(), nil }

// encode writes values in the order of their fields, and maps by their keys, so
// that equal values are equal bytes.
func encode(v any) ([]byte, error) { return yaml.Dump(v, yaml.WithIndent(2), yaml.WithLineWidth(-1)) }
