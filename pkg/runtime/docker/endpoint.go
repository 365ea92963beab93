package docker

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flisk-go/flisk/pkg/fault"
)

// Endpoint is where an engine listens.
type Endpoint struct {
	Host    string // "unix:///var/run/docker.sock", "tcp://127.0.0.1:2375"
	Why     string // why this one, for people: `DOCKER_HOST`, `context "colima" (…)`
	Context string // name of the docker context that names it; "" for none

	tls certificates
}

// certificates are the files of a TLS connection; no directory is no TLS.
type certificates struct {
	dir    string // holds ca.pem, cert.pem and key.pem
	verify bool   // the engine's certificate must be signed by ca.pem
}

// Surroundings are what the choice of an engine depends on.
type Surroundings struct {
	Getenv func(string) string
	Home   string // the user's home directory
}

// config is the directory of the docker command's own files.
func (s Surroundings) config() string {
	if dir := s.Getenv("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	return filepath.Join(s.Home, ".docker")
}

// Resolve finds the engine that the docker command would talk to: DOCKER_HOST,
// else the context of DOCKER_CONTEXT, else the current context, else the first
// socket that exists at a usual place. It does not connect.
//
// Errors are faults: of kind Usage for a remote engine (flisk's stacks are local:
// they mount directories and publish on loopback) and for a context that cannot
// be read, of kind Environment when there is no engine's socket.
func Resolve(s Surroundings) (Endpoint, error) {
	return resolve(s, systemSockets)
}

// sockets are the places of engines that serve every user of the machine.
type sockets struct{ docker, podman string }

var systemSockets = sockets{"/var/run/docker.sock", "/run/podman/podman.sock"}

// fromEnvironment is why an engine is the one that the environment names.
const fromEnvironment = "DOCKER_HOST"

// defaultContext is the docker command's name for "no context".
const defaultContext = "default"

func resolve(s Surroundings, system sockets) (Endpoint, error) {
	config := s.config()
	if host := s.Getenv("DOCKER_HOST"); host != "" {
		e := Endpoint{Host: host, Why: fromEnvironment, tls: environmentTLS(s, config)}
		return e.local()
	}
	name, why := s.Getenv("DOCKER_CONTEXT"), "DOCKER_CONTEXT"
	if name == "" {
		file := filepath.Join(config, "config.json")
		current, err := currentContext(file)
		if err != nil {
			return Endpoint{}, fault.New(fault.Usage, "repair the file, or set DOCKER_HOST", "cannot tell the current docker context: %w", err)
		}
		name, why = current, "current context in "+file
	}
	if name != "" && name != defaultContext {
		e, err := contextEndpoint(config, name)
		if err != nil {
			return Endpoint{}, fault.New(fault.Usage, "see `docker context ls`, or set DOCKER_HOST", "cannot use the docker context %q (%s): %w", name, why, err)
		}
		e.Why = fmt.Sprintf("context %q (%s)", name, why)
		return e.local()
	}
	return firstSocket(s, system)
}

// firstSocket looks at the places where engines usually listen.
func firstSocket(s Surroundings, system sockets) (Endpoint, error) {
	places := []string{system.docker}
	runtimeDir := s.Getenv("XDG_RUNTIME_DIR")
	if runtimeDir != "" {
		places = append(places, filepath.Join(runtimeDir, "docker.sock"))
	}
	places = append(places, filepath.Join(s.Home, ".docker", "run", "docker.sock"))
	if runtimeDir != "" {
		places = append(places, filepath.Join(runtimeDir, "podman", "podman.sock"))
	}
	places = append(places, system.podman)
	for _, path := range places {
		if info, err := os.Stat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
			return Endpoint{Host: "unix://" + path, Why: "the first socket found"}, nil
		}
	}
	return Endpoint{}, fault.New(fault.Environment, "start Docker, or "+OtherRuntime,
		"there is no Docker engine: DOCKER_HOST and the docker context name none, and none of %s is a socket", strings.Join(places, ", "))
}

// environmentTLS is what DOCKER_TLS_VERIFY and DOCKER_TLS ask for.
func environmentTLS(s Surroundings, config string) certificates {
	verify := s.Getenv("DOCKER_TLS_VERIFY") != ""
	if !verify && s.Getenv("DOCKER_TLS") == "" {
		return certificates{}
	}
	dir := s.Getenv("DOCKER_CERT_PATH")
	if dir == "" {
		dir = config
	}
	return certificates{dir, verify}
}

func currentContext(file string) (string, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var config struct {
		CurrentContext string `json:"currentContext"`
	}
	if err == nil {
		err = json.Unmarshal(data, &config)
	}
	if err != nil {
		return "", fmt.Errorf("%q: %w", file, err)
	}
	return config.CurrentContext, nil
}

func contextEndpoint(config, name string) (Endpoint, error) {
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	file := filepath.Join(config, "contexts", "meta", id, "meta.json")
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Endpoint{}, errors.New("there is no such context")
	}
	var meta struct {
		Endpoints struct {
			Docker struct {
				Host          string
				SkipTLSVerify bool
			} `json:"docker"`
		}
	}
	if err == nil {
		err = json.Unmarshal(data, &meta)
	}
	if err != nil {
		return Endpoint{}, fmt.Errorf("%q: %w", file, err)
	}
	docker := meta.Endpoints.Docker
	if docker.Host == "" {
		return Endpoint{}, errors.New("it names no host")
	}
	e := Endpoint{Host: docker.Host, Context: name}
	if dir := filepath.Join(config, "contexts", "tls", id, "docker"); exists(dir) {
		e.tls = certificates{dir, !docker.SkipTLSVerify}
	}
	return e, nil
}

// local refuses what is not an engine on this machine.
func (e Endpoint) local() (Endpoint, error) {
	written := e.Host
	if !strings.Contains(e.Host, "://") {
		e.Host = "tcp://" + e.Host
	}
	u, err := url.Parse(e.Host)
	if err != nil {
		return Endpoint{}, fault.New(fault.Usage, "", "cannot read the engine's address %q (%s): %w", e.Host, e.Why, err)
	}
	switch {
	case u.Scheme == "unix" && u.Path != "" && u.Host == "":
		return e, nil
	case (u.Scheme == "tcp" || u.Scheme == "http" || u.Scheme == "https") && loopback(u.Hostname()):
		return e, nil
	case u.Scheme == "unix":
		return Endpoint{}, fault.New(fault.Usage, "", "the engine's address %q (%s) has no absolute path", e.Host, e.Why)
	case !slices.Contains(remoteSchemes, u.Scheme) || u.Host == "" || written != e.Host && u.Port() == "":
		return Endpoint{}, fault.New(fault.Usage, "write unix:///PATH, or tcp://127.0.0.1:PORT; or use --runtime process",
			"the engine's address %q (%s) is none that flisk can use", withoutPassword(u, written), e.Why)
	}
	return Endpoint{}, fault.New(fault.Usage, "use an engine on this machine, or --runtime process",
		"the Docker engine at %q (%s) is a remote one, and flisk runs stacks on this machine only", u.Redacted(), e.Why)
}

// remoteSchemes are those of addresses that may be another machine's.
var remoteSchemes = []string{"tcp", "http", "https", "ssh"}

// withoutPassword is an address as it was written, unless somebody's password is in
// it.
func withoutPassword(u *url.URL, written string) string {
	if u.User != nil {
		return u.Redacted()
	}
	return written
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// config reads the certificates. It is nil when the connection has no TLS.
func (c certificates) config(host string) (*tls.Config, error) {
	if c.dir == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: !c.verify}
	if u, err := url.Parse(host); err == nil {
		config.ServerName = u.Hostname()
	}
	if ca := filepath.Join(c.dir, "ca.pem"); c.verify || exists(ca) {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%q holds no certificate", ca)
		}
	}
	cert, key := filepath.Join(c.dir, "cert.pem"), filepath.Join(c.dir, "key.pem")
	if exists(cert) || exists(key) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
