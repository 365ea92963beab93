package docker

import (
	"bytes"
	"crypto/x509"
	"path/filepath"
	"testing"
)

// TestC23_RootsWithoutTheHosts: an image has the machine's certificates, and where
// that has none, or an empty file, a bundle nevertheless.
func TestC23_RootsWithoutTheHosts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	none, empty, own := filepath.Join(dir, "none"), filepath.Join(dir, "empty"), filepath.Join(dir, "own")
	const mine = "# mine\n-----BEGIN CERTIFICATE-----\n"
	write(t, empty, "")
	write(t, own, mine)
	if got, err := certificateRoots([]string{none, empty, own}); err != nil || string(got) != mine {
		t.Errorf("the machine's own: %q, %v", got, err)
	}
	if _, err := certificateRoots([]string{dir, own}); err == nil {
		t.Error("what cannot be read is no error")
	}
	got, err := certificateRoots([]string{none, empty})
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(got, []byte("-----BEGIN CERTIFICATE-----")); n < 50 {
		t.Errorf("the bundle has %d certificates", n)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(got) {
		t.Error("nothing of the bundle is a certificate")
	}
	if again := mozillaRoots(); !bytes.Equal(got, again) {
		t.Error("the same bundle comes out otherwise: so would an image")
	}
}
