package docker

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/docker/docker/api/types/registry"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

const loginSecret = "hunter2:with-a-colon"

// loggedIn are surroundings with a config.json, and with helpers that answer by a
// script.
func loggedIn(t *testing.T, config string, helpers map[string]string) Surroundings {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "config.json"), config)
	for name, script := range helpers {
		// A process that another test starts now must not hold the file open: a
		// program that is being written cannot be run.
		syscall.ForkLock.RLock()
		err := os.WriteFile(filepath.Join(dir, "docker-credential-"+name), []byte("#!/bin/sh\n"+script), 0o755)
		syscall.ForkLock.RUnlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	return Surroundings{Home: "/nowhere", Getenv: func(name string) string {
		return map[string]string{"DOCKER_CONFIG": dir, "PATH": "/nowhere:" + dir}[name]
	}}
}

func basic(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

func TestLogins(t *testing.T) {
	t.Parallel()
	file := `{"auths": {
		"https://index.docker.io/v1/": {"auth": "` + basic("me", loginSecret) + `"},
		"https://old.test/v1/": {"auth": "` + basic("old", loginSecret) + `"},
		"token.test": {"identitytoken": "` + loginSecret + `"},
		"broken.test": {"auth": "` + loginSecret + `"},
		"kept.test": {},
		"asked.test:5000": {}
	}`
	asks := map[string]string{
		// It gets the server on its standard input, and "get" as its argument.
		"key":   `test "$1" = get && printf '{"ServerURL":"%s","Username":"by-%s","Secret":"` + loginSecret + `"}' x "$(cat)"`,
		"token": `printf '{"Username":"<token>","Secret":"` + loginSecret + `"}'`,
		"none":  `echo credentials not found in native keychain; exit 1`,
		"bad":   `echo ` + loginSecret + `; echo ` + loginSecret + ` >&2; exit 1`,
		"text":  `echo ` + loginSecret,
	}
	helped := func(helper string) string {
		return file + `, "credHelpers": {"asked.test:5000": "` + helper + `"}}`
	}
	who := func(user, server string) registry.AuthConfig {
		return registry.AuthConfig{Username: user, Password: loginSecret, ServerAddress: server}
	}
	for name, c := range map[string]struct {
		config, image string
		want          registry.AuthConfig
		fails         string
	}{
		"no name of a registry":   {file + "}", "postgres:17", who("me", hub), ""},
		"a user's on the hub":     {file + "}", "me/private", who("me", hub), ""},
		"an old entry":            {file + "}", "old.test/x:1", who("old", "old.test"), ""},
		"a token":                 {file + "}", "token.test/x@sha256:" + strings.Repeat("a", 64), registry.AuthConfig{IdentityToken: loginSecret, ServerAddress: "token.test"}, ""},
		"nobody":                  {file + "}", "else.test/x", registry.AuthConfig{}, ""},
		"an empty entry":          {file + "}", "kept.test/x", registry.AuthConfig{}, ""},
		"an entry that is broken": {file + "}", "broken.test/x", registry.AuthConfig{}, "the login at broken.test"},
		"a helper of its own":     {helped("key"), "asked.test:5000/a/b:1", who("by-asked.test:5000", "asked.test:5000"), ""},
		"a helper's token":        {helped("token"), "asked.test:5000/x", registry.AuthConfig{IdentityToken: loginSecret, ServerAddress: "asked.test:5000"}, ""},
		"a helper with nothing":   {helped("none"), "asked.test:5000/x", registry.AuthConfig{}, ""},
		"a helper that fails":     {helped("bad"), "asked.test:5000/x", registry.AuthConfig{}, "docker-credential-bad"},
		"a helper that chats":     {helped("text"), "asked.test:5000/x", registry.AuthConfig{}, "JSON"},
		"no such helper":          {helped("gone"), "asked.test:5000/x", registry.AuthConfig{}, "docker-credential-gone"},
		"not that helper":         {helped("key"), "me/private", who("me", hub), ""},
		"a store for all":         {file + `, "credsStore": "key"}`, "me/private", who("by-"+hub, hub), ""},
		"no file of that kind":    {`{}`, "me/private", registry.AuthConfig{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := readLogins(loggedIn(t, c.config, asks))
			if err != nil {
				t.Fatal(err)
			}
			got, err := l.at(t.Context(), c.image)
			if got != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}

	l, err := readLogins(loggedIn(t, helped("key"), asks))
	if err != nil {
		t.Fatal(err)
	}
	all, err := l.everywhere(t.Context())
	if len(all) != 4 || all["asked.test:5000"] != who("by-asked.test:5000", "asked.test:5000") || all[hub] != who("me", hub) || err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("everywhere: %+v, %v", all, err)
	}
	if l, err := readLogins(Surroundings{Home: t.TempDir(), Getenv: func(string) string { return "" }}); err != nil || len(l.Auths) > 0 {
		t.Errorf("without a file: %+v, %v", l, err)
	}
}

// TestPullAsTheUser: an image of a private registry is pulled as `docker login`
// says, a base image of a build as well, and no secret is told to anybody else.
func TestPullAsTheUser(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile(suiteProgram.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	logins := make(chan map[string]registry.AuthConfig, 1)
	_, fake := fakePlace(t, dockertest.Options{
		Registry: map[string]dockertest.Pullable{
			"private.test/db:1": {Layers: 1, Login: registry.AuthConfig{Username: "me", Password: loginSecret, ServerAddress: "private.test"}},
			"private.test/db:2": {Layers: 1, Login: registry.AuthConfig{Username: "somebody else", ServerAddress: "private.test"}},
		},
		Build: func(r dockertest.BuildRequest) (dockertest.BuildResult, error) {
			logins <- r.Logins
			return dockertest.BuildResult{Program: program}, nil
		},
	})
	s := loggedIn(t, `{"credHelpers": {"private.test": "key"}}`, map[string]string{"key": `printf '{"Username":"me","Secret":"` + loginSecret + `"}'`})
	p := runtimetest.NewProject(t, dockerPlace(func(name string) string {
		if name == "DOCKER_HOST" {
			return fake.Host()
		}
		return s.Getenv(name)
	}))
	write(t, filepath.Join(p.Setup.Stack.Dir, "Dockerfile"), "FROM private.test/base\n")
	override := filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml")
	write(t, override, "services: {db: {image: 'private.test/db:1'}, bot: {build: {target: small}}}\n")
	var said strings.Builder
	d := driverOf(p)
	d.o.Warn = func(text string) { said.WriteString(text) }
	if _, err := d.Up(t.Context(), p.P); err != nil {
		t.Fatal(err)
	}
	if got := <-logins; len(got) != 1 || got["private.test"].Password != loginSecret {
		t.Errorf("the build got %d logins, and not that of its registry", len(got))
	}
	write(t, override, "services: {db: {image: 'private.test/db:2'}, bot: {build: {target: small}}}\n")
	_, err = d.Up(t.Context(), p.P)
	mustFault(t, err, fault.Failed, "pull access denied")
	if hint := blocking("", err).Hint; !strings.Contains(hint, "docker login private.test") {
		t.Errorf("the hint is %q", hint)
	}
	for what, text := range map[string]string{"a step": p.P.String(), "a warning": said.String(), "the error": err.Error()} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("%s shows the secret: %s", what, text)
		}
	}
	grep(t, p.Setup.Home, "hunter2")
	if _, err := mustEngine(t, p).pullMissing(t.Context(), "private.test/db:2", registry.AuthConfig{}, io.Discard); err == nil {
		t.Error("nobody may pull what is private")
	}
}

// TestLoginOfSeveralEntries is the same one each time.
func TestLoginOfSeveralEntries(t *testing.T) {
	t.Parallel()
	entries := ""
	for _, path := range []string{"v2", "v1", "v3", "v0"} {
		entries += fmt.Sprintf(`, "https://old.test/%s/": {"auth": %q}`, path, basic(path, "x"))
	}
	l, err := readLogins(loggedIn(t, `{"auths": {"https://empty.test/": {}`+entries+`}}`, nil))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if who, err := l.at(t.Context(), "old.test/x"); err != nil || who.Username != "v0" {
			t.Fatalf("%+v, %v", who, err)
		}
	}
}

// TestCtrlCDuringAHelper ends the up, and is no trouble with a login.
func TestCtrlCDuringAHelper(t *testing.T) {
	t.Parallel()
	_, fake := fakePlace(t, dockertest.Options{Registry: map[string]dockertest.Pullable{"private.test/db:1": {Layers: 1}}})
	asked := filepath.Join(t.TempDir(), "asked")
	s := loggedIn(t, `{"credHelpers": {"private.test": "key"}}`, map[string]string{"key": ": > " + asked + "; exec /bin/sleep 60"})
	p := runtimetest.NewProject(t, dockerPlace(func(name string) string {
		if name == "DOCKER_HOST" {
			return fake.Host()
		}
		return s.Getenv(name)
	}))
	write(t, filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml"), "services: {db: {image: 'private.test/db:1'}}\n")
	var said strings.Builder
	d := driverOf(p)
	d.o.Warn = func(text string) { said.WriteString(text) }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := d.Up(ctx, p.P)
		ended <- err
	}()
	runtimetest.Eventually(t, "the helper", func() bool { return exists(asked) })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || said.Len() > 0 {
		t.Errorf("it warned %q, and ended with %v", &said, err)
	}
}
