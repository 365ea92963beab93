package project

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/fault"
)

const whole = `version: 1
name: shop
id: 9f2c41d07a3e
runtime: process
gateway: {bind: 127.0.0.1, port: 8123, hosts: [Shop.Test, "shop.test:8123"]}
agents:
  clerk:
  bot: {path: ./bot/, replicas: 1, turn_timeout: 90s, drain: 2m, on_busy: reject, require_session_id: true, max_body: 64KiB, env_file: [.env, conf/b.env], watch: {ignore: ["*.gen.go"]}}
volumes:
  checkpoints: {name: flisk-shop-9f2c41d07a3e}
verify: {inputs: ["a $HOME ${x}", "two\nlines", 17], env: {KEY: "$HOME\n", N: 017}}
`

const least = `version: 1
name: shop
id: 9f2c41d07a3e
agents: {bot: {}}
volumes: {checkpoints: {name: flisk-shop-9f2c41d07a3e}}
`

// write makes a project of one file and returns its directory.
func write(t *testing.T, content string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func load(t *testing.T, content string) *Project {
	t.Helper()
	p, warnings, err := Load(write(t, content))
	if err != nil || len(warnings) > 0 {
		t.Fatalf("Load: %v, warnings %v", err, warnings)
	}
	return p
}

func TestWholeFile(t *testing.T) {
	t.Parallel()
	got := load(t, whole)
	want := &Project{
		Dir: got.Dir, Name: "shop", ID: "9f2c41d07a3e", Runtime: Process,
		Gateway: Gateway{Bind: "127.0.0.1", Port: 8123, Hosts: []string{"shop.test", "shop.test:8123"}},
		Agents: []Agent{
			{Name: "bot", Path: "bot", Replicas: 1, TurnTimeout: 90 * time.Second, Drain: 2 * time.Minute, OnBusy: "reject",
				RequireSession: true, MaxBody: 64 << 10, EnvFiles: []string{".env", "conf/b.env"}, WatchIgnore: []string{"*.gen.go"}},
			defaultAgent("clerk"),
		},
		Volume: "flisk-shop-9f2c41d07a3e",
		// Nothing is expanded, and a number stays the text it is.
		Verify: Verify{Inputs: []string{"a $HOME ${x}", "two\nlines", "17"}, Env: map[string]string{"KEY": "$HOME\n", "N": "017"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	got := load(t, least)
	if got.Runtime != Auto || got.Gateway.Bind != "127.0.0.1" || got.Gateway.Port != 8080 || len(got.Verify.Inputs) != 3 {
		t.Errorf("got %+v", got)
	}
	a, ok := got.Agent("bot")
	if !ok || a.Path != "." || a.Replicas != 1 || a.TurnTimeout != 100*time.Second || a.Drain != 120*time.Second ||
		a.OnBusy != "queue" || a.RequireSession || a.MaxBody != 1<<20 || !slices.Equal(a.EnvFiles, []string{".env"}) {
		t.Errorf("got %+v", a)
	}
	if _, ok := got.Agent("nobody"); ok {
		t.Error("an agent that is not in the file was found")
	}
}

// An id may look like a number, also one with an exponent.
func TestIDOfDigits(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"123456789012", "012345678901", "1234567e8901"} {
		if p := load(t, strings.Replace(least, "9f2c41d07a3e\nagents", id+"\nagents", 1)); p.ID != id {
			t.Errorf("id %s was read as %s", id, p.ID)
		}
	}
}

func TestByteOrderMarkAndCRLF(t *testing.T) {
	t.Parallel()
	if p := load(t, "\ufeff"+strings.ReplaceAll(whole, "\n", "\r\n")); p.Name != "shop" || p.Gateway.Port != 8123 {
		t.Errorf("got %+v", p)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	_, _, err := Load(write(t, `version: 1
name: Shop
id: 9f2c41d07a3e
gatway: {port: 8080}
gateway:
  prot: 8080
  bind: 0.0.0.0
agents:
  bot: {turn_timeout: 100, on_busy: que}
  bot: {}
`))
	f := usage(t, err)
	if want := "flisk.yaml has 8 problems"; f.Message != want {
		t.Errorf("message %q, want %q", f.Message, want)
	}
	if f.Hint != "" {
		t.Errorf("hint %q says nothing that the places do not", f.Hint)
	}
	want := `flisk.yaml:1:1: key "volumes" is missing: it names where the conversations are
   1 | version: 1
     | ^
flisk.yaml:2:7: name must have 1 to 40 characters of a-z, 0-9 and -, the first and the last one not a -, not "Shop"
   2 | name: Shop
     |       ^
flisk.yaml:4:1: unknown key "gatway"; did you mean "gateway"?
   4 | gatway: {port: 8080}
     | ^
flisk.yaml:6:3: unknown key "prot" in gateway; did you mean "port"?
   6 |   prot: 8080
     |   ^
flisk.yaml:7:9: gateway.bind must be a loopback address such as "127.0.0.1" for now, not "0.0.0.0"
   7 |   bind: 0.0.0.0
     |         ^
flisk.yaml:9:23: agents.bot.turn_timeout needs a unit: "100s"
   9 |   bot: {turn_timeout: 100, on_busy: que}
     |                       ^
flisk.yaml:9:37: agents.bot.on_busy cannot be "que"; did you mean "queue"?
   9 |   bot: {turn_timeout: 100, on_busy: que}
     |                                     ^
flisk.yaml:10:3: key "bot" is given twice; the first is in line 9
  10 |   bot: {}
     |   ^`
	if f.Detail != want {
		t.Errorf("detail:\n%s\nwant:\n%s", f.Detail, want)
	}
	ps, ok := errors.AsType[Problems](err)
	if !ok || len(ps) != 8 || ps[3].Line != 6 || ps[3].Column != 3 {
		t.Errorf("problems %v", ps)
	}
}

// usage asserts what every refusal of a file is.
func usage(t *testing.T, err error) *fault.Fault {
	t.Helper()
	f, ok := errors.AsType[*fault.Fault](err)
	if !ok || f.Kind != fault.Usage {
		t.Fatalf("error %v is not a fault of kind Usage", err)
	}
	return f
}

// TestBadValues changes one line of a good file a case; the problem must be the
// only one, at the place given.
func TestBadValues(t *testing.T) {
	t.Parallel()
	line := func(key, value string) string { return least + key + ": " + value + "\n" }
	agent := func(settings string) string { return strings.Replace(least, "{bot: {}}", "{bot: {"+settings+"}}", 1) }
	replace := func(old, new string) string { return strings.Replace(least, old, new, 1) }
	for name, c := range map[string]struct{ content, want string }{
		"port 0":              {line("gateway", "{port: 0}"), `6:17: gateway.port must be from 1 to 65535, not 0`},
		"port 65536":          {line("gateway", "{port: 65536}"), `6:17: gateway.port must be from 1 to 65535`},
		"port text":           {line("gateway", `{port: "8080"}`), `6:17: gateway.port must be a whole number`},
		"port hexadecimal":    {line("gateway", "{port: 0x50}"), `6:17: gateway.port must be a whole number`},
		"port missing value":  {line("gateway", "{port: }"), `gateway.port must be a whole number, not nothing`},
		"bind name":           {line("gateway", "{bind: localhost}"), `6:17: gateway.bind must be an IP address`},
		"bind everywhere":     {line("gateway", `{bind: "::"}`), `6:17: gateway.bind must be a loopback address`},
		"host with scheme":    {line("gateway", `{hosts: ["http://a"]}`), `6:19: gateway.hosts takes names`},
		"host with wildcard":  {line("gateway", `{hosts: ["*.a"]}`), `6:19: gateway.hosts takes names`},
		"host with bad port":  {line("gateway", `{hosts: ["a:0"]}`), `6:19: gateway.hosts takes names`},
		"host with break":     {line("gateway", `{hosts: ["a\nb"]}`), `6:19: gateway.hosts takes names`},
		"hosts no list":       {line("gateway", `{hosts: a}`), `6:18: gateway.hosts must be a list such as [a, b], not "a"`},
		"gateway no mapping":  {line("gateway", "8080"), `6:10: gateway must hold keys and values, not "8080"`},
		"runtime":             {line("runtime", "dokcer"), `6:10: runtime cannot be "dokcer"; did you mean "docker"?`},
		"runtime near":        {line("runtime", "proces"), `6:10: runtime cannot be "proces"; did you mean "process"?`},
		"id empty":            {replace("9f2c41d07a3e\nagents", "\nagents"), `id is empty`},
		"one slip":            {replace("agents:", "agent:"), `4:1: unknown key "agent"; did you mean "agents"?`},
		"runtime far off":     {line("runtime", "kubernetes"), `known here: auto, docker, process`},
		"inputs empty":        {line("verify", "{inputs: []}"), `6:18: verify.inputs must hold at least one input`},
		"inputs nested":       {line("verify", "{inputs: [[a]]}"), `6:19: an entry of verify.inputs must be a text, not a list`},
		"env name":            {line("verify", `{env: {"a=b": c}}`), `6:16: "a=b" cannot name an environment variable`},
		"env reserved":        {line("verify", `{env: {FLISK_DATA: c}}`), `6:16: "FLISK_DATA" is set by flisk itself`},
		"agent gateway":       {replace("agents: {bot: {}}", "agents: {gateway: {}}"), `4:10: an agent cannot be called "gateway"`},
		"replicas 0":          {agent("replicas: 0"), `4:26: agents.bot.replicas must be from 1 to 64`},
		"replicas 2":          {agent("replicas: 2"), `4:26: agents.bot.replicas must be 1: more than one replica comes later`},
		"timeout zero":        {agent("turn_timeout: 0s"), `agents.bot.turn_timeout must be above 0`},
		"timeout negative":    {agent("turn_timeout: -5s"), `agents.bot.turn_timeout must be above 0`},
		"timeout too long":    {agent("turn_timeout: 25h, drain: 24h"), `agents.bot.turn_timeout must be above 0 and at most 24h`},
		"timeout text":        {agent("turn_timeout: soon"), `must be a duration such as "100s" or "2m", not "soon"`},
		"boolean yes":         {agent("require_session_id: yes"), `must be true or false, not "yes"`},
		"size unit":           {agent("max_body: 1mib"), `has the unknown unit "mib"; did you mean "MiB"?`},
		"size zero":           {agent("max_body: 0"), `must be from 1 to 4194304 bytes, not "0"`},
		"size too large":      {agent("max_body: 5MiB"), `must be from 1 to 4194304 bytes`},
		"size overflowing":    {agent("max_body: 9223372036854775807GiB"), `must be from 1 to 4194304 bytes`},
		"size beyond int64":   {agent("max_body: 99999999999999999999"), `must be a size such as "1MiB"`},
		"size text":           {agent("max_body: large"), `must be a size such as "1MiB", not "large"`},
		"path upwards":        {agent("path: ../x"), `agents.bot.path must be a path inside the project`},
		"path through":        {agent("path: a/../../x"), `agents.bot.path must be a path inside the project`},
		"path absolute":       {agent("path: /etc"), `agents.bot.path must be a path inside the project`},
		"path empty":          {agent(`path: ""`), `agents.bot.path must be a path inside the project`},
		"env_file no list":    {agent("env_file: .env"), `agents.bot.env_file must be a list such as [a, b], not ".env"`},
		"env_file upwards":    {agent("env_file: [../.env]"), `agents.bot.env_file must be a path inside the project`},
		"watch pattern":       {agent(`watch: {ignore: ["[a"]}`), `"[a" is not a pattern of file names`},
		"agent key":           {agent("turnTimeout: 1s"), `unknown key "turnTimeout" in agents.bot; did you mean "turn_timeout"?`},
		"agent name":          {replace("bot:", "Bot:"), `4:10: an agent's name must have 1 to 20 characters`},
		"no agent":            {replace("{bot: {}}", "{}"), `4:9: agents must name at least one agent`},
		"agents a list":       {replace("{bot: {}}", "[bot]"), `4:9: agents must hold keys and values, not a list`},
		"id short":            {replace("9f2c41d07a3e\nagents", "9f2c\nagents"), `3:5: id must have 12 hexadecimal digits (0-9, a-f), not "9f2c"`},
		"id capital":          {replace("9f2c41d07a3e\nagents", "9F2C41D07A3E\nagents"), `3:5: id must have 12`},
		"name with break":     {replace("shop", `"sh\nop"`), `2:7: name must have 1 to 40 characters`},
		"name long":           {replace("shop", strings.Repeat("a", 41)), `2:7: name must have 1 to 40 characters`},
		"name missing":        {replace("name: shop\n", ""), `1:1: key "name" is missing: the name that init gave`},
		"volume name":         {replace("name: flisk", "name: /flisk"), `volumes.checkpoints.name must have 2 to 63 characters`},
		"volume name long":    {replace("name: flisk", "name: "+strings.Repeat("a", 60)), `volumes.checkpoints.name must have 2 to 63 characters`},
		"volume name missing": {replace("name: flisk-shop-9f2c41d07a3e", ""), `key "name" is missing in volumes.checkpoints`},
		"version missing":     {replace("version: 1\n", ""), `key "version" is missing`},
		"version newer":       {replace("version: 1", "version: 2\nnews: x"), `1:10: version 2 is newer than this flisk`},
		"version text":        {replace("version: 1", "version: one"), `1:10: version must be a whole number, not "one"`},
		"anchor":              {replace("shop\n", "&a shop\n"), `2:7: anchors and aliases are not supported`},
		"alias":               {line("verify", "{env: &e {A: b}}"), `6:15: anchors and aliases are not supported`},
		"merge key":           {replace("{bot: {}}", "{bot: {<<: {drain: 1s}}}"), `4:16: a key must be a plain word`},
		"tag":                 {replace("shop\n", "!!str shop\n"), `2:7: tags are not supported`},
		"list as key":         {least + "? [a]\n: b\n", `6:3: a key must be a plain word`},
		"scalar":              {"flisk", `1:1: flisk.yaml must hold keys and values, not "flisk"`},
		"empty":               {"", `flisk.yaml: the file is empty`},
		"comment only":        {"# nothing\n", `flisk.yaml: the file is empty`},
		"two documents":       {least + "---\n" + least, `6:1: the file must hold one document; a second one begins here`},
		"tab":                 {replace("agents: {bot: {}}", "agents:\n\tbot: {}"), `5:1: a tab cannot indent YAML; use spaces`},
		"tab behind spaces":   {replace("agents: {bot: {}}", "agents:\n  bot:\n  \tpath: x"), `6:3: a tab cannot indent YAML; use spaces`},
		"not closed":          {replace("{bot: {}}", "{bot: {}"), `5:1: this is not YAML`},
		"ends early":          {least + "verify: {inputs: [a", `the file ends in the middle of something`},
		"colon in value":      {replace("shop\n", "a: b\n"), `2:8: this is not YAML: mapping values are not allowed in this context (a value with ':' in it needs quotes)`},
		"control character":   {replace("shop\n", "sh\x1b[2Jop\n"), `2:9: a control character (U+001B) is not allowed`},
		"binary":              {"\x7fELF\x00\x01\xff", `flisk.yaml: the file is not UTF-8 text`},
		"utf-16":              {"\xff\xfev\x00e\x00", `flisk.yaml: the file is not UTF-8 text`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := Load(write(t, c.content))
			f := usage(t, err)
			if strings.HasPrefix(f.Message, "flisk.yaml has") || !strings.Contains(f.Message, c.want) {
				t.Errorf("message %q\n%s\nwant     %q", f.Message, f.Detail, c.want)
			}
			if strings.ContainsAny(f.Message+f.Hint, "\n\x1b") {
				t.Errorf("message and hint must be one line each: %q, %q", f.Message, f.Hint)
			}
			if strings.ContainsRune(f.Detail, '\x1b') {
				t.Errorf("the snippet carries an escape sequence: %q", f.Detail)
			}
		})
	}
}

func TestValuesWithUnits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"1": 1, "512B": 512, "500kB": 500_000, "64KiB": 64 << 10, "1MB": 1_000_000, "4MiB": 4 << 20, "2 MiB": 2 << 20, "4194304": 4 << 20,
	} {
		if a := load(t, strings.Replace(least, "{bot: {}}", "{bot: {max_body: "+text+"}}", 1)).Agents[0]; a.MaxBody != want {
			t.Errorf("max_body %s is %d bytes, want %d", text, a.MaxBody, want)
		}
	}
	if maxBody*2 > checkpoint.MaxLine {
		t.Errorf("an input of max_body leaves no room in a session line of %d bytes", checkpoint.MaxLine)
	}
}

func TestHosts(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"a", "a.b-c.test", "10.0.0.7", "10.0.0.7:80", "[::1]", "[fe80::1]:65535", "xn--bcher-kva.example"} {
		if !validHost(host) {
			t.Errorf("%q is refused", host)
		}
	}
	for _, host := range []string{"", ".", "a.", "a..b", "-a", "a-", "a b", "a/b", "a:", "a:b", "a:080", "a:70000", "::1", "[::1", "[a]", "[fe80::1%eth0]", strings.Repeat("a", 64), strings.Repeat("a.", 127) + "a"} {
		if validHost(host) {
			t.Errorf("%q is accepted", host)
		}
	}
}

func TestDrainBelowTurnTimeoutIsAWarning(t *testing.T) {
	t.Parallel()
	p, warnings, err := Load(write(t, strings.Replace(least, "{bot: {}}", "{bot: {drain: 5s}}", 1)))
	if err != nil || len(warnings) != 1 {
		t.Fatalf("Load: %v, %v", warnings, err)
	}
	want := `flisk.yaml:4:23: agent "bot" drains for at most 5s, but a turn may take 1m40s: a stop can cut a turn short`
	if warnings[0].String() != want || p.Agents[0].Drain != 5*time.Second {
		t.Errorf("warning %q, want %q", warnings[0], want)
	}
}

// A long line and a long value stay on one terminal line, with the caret where
// it belongs.
func TestSnippetOfALongLine(t *testing.T) {
	t.Parallel()
	_, _, err := Load(write(t, strings.Replace(least, "{bot: {}}", `{bot: {path: "`+strings.Repeat("ä", 500)+`", drian: 1s}}`, 1)))
	f := usage(t, err)
	if !strings.Contains(f.Detail, strings.Repeat("ä", 500)) || strings.Contains(f.Detail, "…") {
		t.Errorf("the line is cut without need:\n%s", f.Detail)
	}
	ps, _ := errors.AsType[Problems](err)
	for _, columns := range []int{78, 40, 16} {
		text, caret, ok := strings.Cut(ps.Detail(columns), "\n")
		if !ok || len([]rune(text)) != columns || !strings.HasPrefix(text, "   4 | …") {
			t.Fatalf("snippet for %d columns:\n%s\n%s", columns, text, caret)
		}
		at := strings.IndexByte(caret, '^')
		if got := string([]rune(text)[at : at+3]); got != "dri" {
			t.Errorf("the caret points at %q:\n%s\n%s", got, text, caret)
		}
	}
	// At its beginning only the end is left out.
	p := Problem{Line: 4, Column: 1, Source: "name: " + strings.Repeat("x", 100)}
	if text, _, _ := strings.Cut(p.Snippet(40), "\n"); !strings.HasPrefix(text, "   4 | name: x") || !strings.HasSuffix(text, "x…") || len([]rune(text)) != 40 {
		t.Errorf("snippet %q", text)
	}
}

// A wrong file still says which project it is of.
func TestIdentify(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		content                 string
		agents, volume, project string
		port                    int
		unknown                 bool // not even the id can be read
	}{
		"unknown key":    {content: least + "x: 1\n", agents: "bot", volume: "flisk-shop-9f2c41d07a3e", project: "shop", port: 8080},
		"bad values":     {content: "id: 9f2c41d07a3e\nname: Shop\ngateway: {port: 9, bind: moon}\nagents: {bot: {drain: x}, Bad: {}, c: {y: 1}}\n", agents: "bot c", project: "9f2c41d07a3e", port: 9},
		"slip in agents": {content: strings.Replace(least, "agents:", "agent:", 1), volume: "flisk-shop-9f2c41d07a3e", project: "shop", port: 8080},
		"open bracket":   {content: strings.Replace(least, "{bot: {}}", "{bot: {}", 1), volume: "flisk-shop-9f2c41d07a3e", project: "shop", port: 8080},
		"tab":            {content: "\ufeff" + strings.Replace(least, "{bot: {}}", "\n\tbot: {}", 1), volume: "flisk-shop-9f2c41d07a3e", project: "shop", port: 8080},
		"binary value":   {content: strings.Replace(least, "{bot: {}}", "\xff", 1), volume: "flisk-shop-9f2c41d07a3e", project: "shop", port: 8080},
		"ends early":     {content: least + "verify: {inputs: [a", agents: "bot", volume: "flisk-shop-9f2c41d07a3e", project: "shop", port: 8080},
		"bad id":         {content: strings.Replace(least, "id: 9f2c41d07a3e", "id: 9f2c", 1), unknown: true},
		"newer":          {content: strings.Replace(least, "version: 1", "version: 2", 1), unknown: true},
		"empty":          {content: "", unknown: true},
		"scalar":         {content: "flisk", unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := write(t, c.content)
			if _, _, err := Load(dir); err == nil {
				t.Fatal("Load takes it")
			}
			p, ok := Identify(dir)
			if ok == c.unknown {
				t.Fatalf("Identify reports %v: %+v", ok, p)
			}
			if c.unknown {
				return
			}
			if p.Dir != dir || p.ID != "9f2c41d07a3e" || p.Name != c.project || p.Volume != c.volume || p.Gateway.Port != c.port ||
				strings.Join(p.AgentNames(), " ") != c.agents {
				t.Errorf("got %+v", p)
			}
		})
	}
	if _, ok := Identify(t.TempDir()); ok {
		t.Error("a project was found where there is none")
	}
}

func TestFoundFromBelow(t *testing.T) {
	t.Parallel()
	dir := write(t, least)
	below := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{dir, below, link, filepath.Join(link, "a")} {
		p, _, err := Load(from)
		if err != nil || p.Dir != dir {
			t.Errorf("from %q: %v, %v", from, p, err)
		}
	}
}

func TestFileThatCannotBeRead(t *testing.T) {
	t.Parallel()
	with := func(f func(path string) error) string {
		dir := t.TempDir()
		if err := f(filepath.Join(dir, FileName)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for name, c := range map[string]struct{ dir, want string }{
		"missing":       {t.TempDir(), "there is no flisk.yaml in"},
		"no directory":  {filepath.Join(t.TempDir(), "gone"), "there is no directory"},
		"a directory":   {with(func(p string) error { return os.Mkdir(p, 0o755) }), "it is a directory"},
		"a pipe":        {with(func(p string) error { return syscall.Mkfifo(p, 0o644) }), "it is not a regular file"},
		"dangling link": {with(func(p string) error { return os.Symlink("nowhere", p) }), "it is a symbolic link to nothing"},
		"huge":          {with(func(p string) error { return os.WriteFile(p, []byte("#"+strings.Repeat("x", 1<<20)), 0o644) }), "it is larger than 1 MiB"},
	} {
		_, _, err := Load(c.dir)
		if f := usage(t, err); !strings.Contains(f.Message, c.want) {
			t.Errorf("%s: message %q, want %q", name, f.Message, c.want)
		}
		if f := usage(t, err); name == "missing" && !strings.Contains(f.Hint, "flisk init") {
			t.Errorf("hint %q does not name flisk init", f.Hint)
		}
	}
	dir := write(t, least)
	if err := os.Chmod(filepath.Join(dir, FileName), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(filepath.Join(dir, FileName)); err == nil {
		t.Skip("this user may read every file")
	}
	if f := usage(t, errOf(Load(dir))); !strings.Contains(f.Message, "permission denied") || f.Hint == "" {
		t.Errorf("got %+v", f)
	}
}

func errOf(_ *Project, _ []Warning, err error) error { return err }

func TestDidYouMean(t *testing.T) {
	t.Parallel()
	words := []string{"turn_timeout", "drain", "on_busy", "path", "env_file"}
	for word, want := range map[string]string{
		"turn-timeout": "turn_timeout", "Drain": "drain", "darin": "drain", "onbusy": "on_busy", "env_files": "env_file", "pth": "path",
	} {
		if got := didYouMean(word, words); !strings.Contains(got, `"`+want+`"`) {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	if got := didYouMean("volume", words); !strings.Contains(got, "known here: turn_timeout, drain") {
		t.Errorf("a word that is near none: %q", got)
	}
}
