package docker

import (
	"bytes"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// rootFiles are where systems keep the certificates of authorities.
var rootFiles = []string{
	"/etc/ssl/certs/ca-certificates.crt", // Debian, Alpine, Arch
	"/etc/pki/tls/certs/ca-bundle.crt",   // Fedora
	"/etc/ssl/ca-bundle.pem",             // openSUSE
	"/etc/ssl/cert.pem",                  // macOS, BSD
}

// certificateRoots are this machine's, as PEM: what its people trust, an agent
// that they run trusts, too. Where the machine has none they are those that came
// with flisk, so that an agent can call a model from anywhere.
func certificateRoots(files []string) ([]byte, error) {
	for _, path := range files {
		content, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case bytes.Contains(content, []byte("-----BEGIN ")):
			return content, nil
		}
	}
	return mozillaRoots(), nil
}

// mozillaRoots are the authorities that Mozilla trusts, as of the version of the
// module. One that is trusted under a condition only is left out: a file of
// certificates cannot say it.
func mozillaRoots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes everything
		}
	}
	return out.Bytes()
}
