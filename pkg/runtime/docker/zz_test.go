package docker

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
	"strings"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/image"
)

func TestZZ(t *testing.T) {
	ep, err := Resolve(Surroundings{os.Getenv, os.Getenv("HOME")})
	t.Log(ep, err)
	e, err := connect(t.Context(), ep, "")
	if err != nil { t.Fatal(err) }
	t.Logf("%+v", e.facts)
	dir := t.TempDir()
	os.WriteFile(dir+"/main.go", []byte("package main\nimport (\"net/http\";\"encoding/json\";\"os\")\nfunc main(){ json.NewEncoder(os.Stdout).Encode(1); http.ListenAndServe(\":1\",nil) }"), 0o644)
	c := exec.Command("go", "build", "-o", dir+"/agent", dir+"/main.go"); c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil { t.Fatal(string(out)) }
	orig, _ := os.ReadFile(dir+"/agent")
	for i := range 7 {
		os.WriteFile(dir+"/agent", append(orig, byte(i), byte(time.Now().UnixNano())), 0o755)
		a := agentImage{tag: "flisk-zz/a:latest", program: dir+"/agent", arch: "amd64", roots: []byte("x")}
		t0 := time.Now()
		id, made, err := e.loadAgentImage(t.Context(), a)
		load := time.Since(t0)
		t0 = time.Now()
		id2, made2, err2 := e.loadAgentImage(t.Context(), a)
		again := time.Since(t0)
		if id != id2 || made2 || !made { t.Error(id,id2,made,made2) }
		// classic
		var buf bytes.Buffer
		w := tar.NewWriter(&buf)
		put(w, tar.Header{Name:"Dockerfile", Mode:0o644}, []byte("FROM scratch\nCOPY root /\nUSER 65532:65532\nENTRYPOINT [\"/agent\"]\nLABEL a=b\n"))
		p, _ := os.ReadFile(dir+"/agent")
		put(w, tar.Header{Name:"root/agent", Mode:0o755}, p)
		put(w, tar.Header{Name:"root/data/", Typeflag: tar.TypeDir, Mode:0o755, Uid: 65532, Gid:65532}, nil)
		w.Close()
		bts := buf.Bytes()
		for _, v := range []build.BuilderVersion{build.BuilderV1, build.BuilderBuildKit} {
		t0 = time.Now()
		r, err3 := e.api.ImageBuild(t.Context(), bytes.NewReader(bts), build.ImageBuildOptions{Version: v, Tags: []string{"flisk-zz/b:latest"}, Remove: true})
		if err3 == nil { var sb strings.Builder; _, err3 = readMessages(r.Body, &sb); io.Copy(io.Discard, r.Body) }
		t.Log(i, len(orig), v, "build", time.Since(t0), err3)
		}
		t.Log(i, "load", load, "again", again, err, err2, id)
		e.api.ImageRemove(t.Context(), "flisk-zz/a:latest", image.RemoveOptions{})
		e.api.ImageRemove(t.Context(), "flisk-zz/b:latest", image.RemoveOptions{})
	}
}
