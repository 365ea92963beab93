package docker

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/registry"
)

// logins are what `docker login` left: who somebody is at registries, in the
// docker command's own file or in the keychain that it names. An image is pulled
// with them as `docker pull` would. Nothing of them is ever printed: not what a
// helper says either, which may hold a secret.
type logins struct {
	file string // where they were read, for people
	path string // where helpers are looked for, as in PATH

	Auths   map[string]login  `json:"auths"`       // by server
	Store   string            `json:"credsStore"`  // the helper of every server
	Helpers map[string]string `json:"credHelpers"` // of those that have one of their own
}

// login is one entry of the file. It is empty where a helper has the secret.
type login struct {
	Auth          string `json:"auth"` // base64 of "user:password"
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// hub is the name that logins have for the registry of images without one.
const hub = "https://index.docker.io/v1/"

// helperTime bounds one question to a helper, which may ask a person to unlock a
// keychain.
const helperTime = time.Minute

// readLogins reads the docker command's file. None is nobody.
func readLogins(s Surroundings) (logins, error) {
	l := logins{file: filepath.Join(s.config(), "config.json"), path: s.Getenv("PATH")}
	data, err := os.ReadFile(l.file)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	if err != nil {
		return logins{}, fmt.Errorf("cannot read %q: %w", l.file, err)
	}
	return l, nil
}

// at is who somebody is at the registry of an image; the zero value is nobody.
func (l logins) at(ctx context.Context, image string) (registry.AuthConfig, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return registry.AuthConfig{}, nil // the engine says what is wrong with it
	}
	server := reference.Domain(named)
	if server == "docker.io" {
		server = hub
	}
	return l.of(ctx, server)
}

// everywhere is who somebody is at each registry that the file knows: which of
// them a build needs is known to its Dockerfile only. One that cannot be asked
// does not keep the others back.
func (l logins) everywhere(ctx context.Context) (map[string]registry.AuthConfig, error) {
	servers := slices.Concat(slices.Collect(maps.Keys(l.Auths)), slices.Collect(maps.Keys(l.Helpers)))
	slices.Sort(servers)
	all := map[string]registry.AuthConfig{}
	var errs []error
	for _, server := range slices.Compact(servers) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		who, err := l.of(ctx, server)
		errs = append(errs, err)
		if who != (registry.AuthConfig{}) {
			all[server] = who
		}
	}
	return all, errors.Join(errs...)
}

// of asks the helper of a server, else the file.
func (l logins) of(ctx context.Context, server string) (registry.AuthConfig, error) {
	helper := l.Store
	if own := l.Helpers[server]; own != "" {
		helper = own
	}
	if helper != "" {
		return l.ask(ctx, helper, server)
	}
	entry := l.Auths[server]
	for _, key := range slices.Sorted(maps.Keys(l.Auths)) { // the same one each time
		if entry == (login{}) && hostOf(key) == server { // older files have URLs
			entry = l.Auths[key]
		}
	}
	if entry == (login{}) {
		return registry.AuthConfig{}, nil
	}
	who := registry.AuthConfig{
		Username: entry.Username, Password: entry.Password, IdentityToken: entry.IdentityToken,
		RegistryToken: entry.RegistryToken, ServerAddress: server,
	}
	if entry.Auth != "" {
		decoded, err := base64.StdEncoding.DecodeString(entry.Auth)
		user, password, found := strings.Cut(string(decoded), ":")
		if err != nil || !found {
			return registry.AuthConfig{}, fmt.Errorf("the login at %s in %q cannot be read", server, l.file) // and not shown
		}
		who.Username, who.Password = user, strings.Trim(password, "\x00")
	}
	return who, nil
}

// hostOf is the host of a server that is a URL.
func hostOf(server string) string {
	server = strings.TrimPrefix(strings.TrimPrefix(server, "http://"), "https://")
	host, _, _ := strings.Cut(server, "/")
	return host
}

// notThere is what helpers say of a server that they have nothing for. It is the
// protocol's only way to say so.
const notThere = "credentials not found in native keychain"

// tokenUser is the user of a secret that is a token.
const tokenUser = "<token>"

// ask asks a helper, a program on the PATH, as the docker command does.
func (l logins) ask(ctx context.Context, helper, server string) (registry.AuthConfig, error) {
	name := "docker-credential-" + helper
	failed := func(err error) (registry.AuthConfig, error) {
		return registry.AuthConfig{}, fmt.Errorf("%s, which %q names, does not tell the login at %s: %w", name, l.file, server, err)
	}
	program, err := l.find(name)
	if err != nil {
		return failed(err)
	}
	ctx, cancel := context.WithTimeout(ctx, helperTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "get")
	cmd.Stdin, cmd.WaitDelay = strings.NewReader(server), time.Second
	said, err := cmd.Output()
	if err != nil {
		if strings.TrimSpace(string(said)) == notThere {
			return registry.AuthConfig{}, nil
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return failed(err) // without what it wrote
	}
	var got struct{ Username, Secret string }
	if json.NewDecoder(bytes.NewReader(said)).Decode(&got) != nil {
		return failed(errors.New("it does not answer in JSON"))
	}
	if got.Username == tokenUser {
		return registry.AuthConfig{IdentityToken: got.Secret, ServerAddress: server}, nil
	}
	return registry.AuthConfig{Username: got.Username, Password: got.Secret, ServerAddress: server}, nil
}

func (l logins) find(name string) (string, error) {
	for _, dir := range filepath.SplitList(l.path) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && filepath.IsAbs(path) {
			return path, nil
		}
	}
	return "", errors.New("there is no such program on the PATH")
}

// logins are those of the driver's user. What is wrong with them is a warning: most
// images need none.
func (d *Driver) logins(ctx context.Context) (logins, error) {
	l, err := readLogins(d.o.Surroundings)
	return l, d.warnLogin(ctx, err)
}

// warnLogin warns of a login that cannot be told. When ctx has ended it returns
// that: nothing is pulled then.
func (d *Driver) warnLogin(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		d.warn(fmt.Sprintf("images are pulled without a login: %v", err))
	}
	return nil
}
