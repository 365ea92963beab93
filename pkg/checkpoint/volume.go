package checkpoint

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flisk-go/flisk/pkg/internal/durable"
)

// volume is the file that makes a directory a volume.
type volume struct {
	V      int    `json:"v"`
	Volume string `json:"volume"`
	Secret string `json:"secret"`

	secret []byte
}

const (
	volumeVersion = 1
	secretSize    = 32
)

// InitVolume makes a directory a volume, and the directory itself where it is
// missing, unless it is one already. Of several processes that do it at once
// one creates the volume, and all return its id.
//
// Errors: one that wraps [ErrNotVolume].
func InitVolume(dir string) (id string, created bool, err error) {
	if err := durable.MakeRoot(dir); err != nil {
		return "", false, fmt.Errorf("%w: %w", ErrNotVolume, err)
	}
	root, err := durable.OpenRoot(dir)
	if err != nil {
		return "", false, fmt.Errorf("%w: %w", ErrNotVolume, err)
	}
	defer root.Close()
	v, created, err := ensureVolume(root, dir)
	return v.Volume, created, err
}

// VolumeID reads the id of the volume in a directory and writes nothing. A
// directory that is none, or is missing, is fs.ErrNotExist.
func VolumeID(dir string) (string, error) {
	root, err := durable.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	v, err := readVolume(root, dir)
	return v.Volume, err
}

func readVolume(root durable.FS, dir string) (volume, error) {
	data, err := durable.ReadFile(root, durable.OpVolumeRead, volumeName)
	if err != nil {
		return volume{}, fmt.Errorf("volume in %q: %w", dir, err)
	}
	return decodeVolume(data, dir)
}

// decodeVolume takes the place where data was read for its errors.
func decodeVolume(data []byte, dir string) (v volume, err error) {
	if err := json.Unmarshal(data, &v); err != nil {
		return volume{}, fmt.Errorf("%w: %s in %q cannot be read: %w", ErrNotVolume, volumeName, dir, err)
	}
	if v.V != volumeVersion {
		return volume{}, fmt.Errorf("%w: the volume in %q has version %d, and this version of flisk reads version %d", ErrNotVolume, dir, v.V, volumeVersion)
	}
	if v.secret, err = hex.DecodeString(v.Secret); err != nil || len(v.secret) != secretSize || v.Volume == "" {
		return volume{}, fmt.Errorf("%w: %s in %q is not complete", ErrNotVolume, volumeName, dir)
	}
	return v, nil
}

// ensureVolume reads the volume, after making it when there is none. The file
// gets its name by a link, which only one process can do.
func ensureVolume(root durable.FS, dir string) (v volume, created bool, err error) {
	if v, err = readVolume(root, dir); !errors.Is(err, fs.ErrNotExist) {
		return v, false, err
	}
	secret := make([]byte, secretSize)
	_, _ = rand.Read(secret) // documented never to fail
	data, err := json.Marshal(volume{V: volumeVersion, Volume: newUUID(), Secret: hex.EncodeToString(secret)})
	if err != nil {
		return volume{}, false, err
	}
	placed, err := durable.Write(root, volumeName, append(data, '\n'), durable.WriteOptions{
		Place: durable.VolumeFile, Temp: "." + volumeName + "-" + newUUID() + tempSuffix, NoReplace: true,
	})
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return volume{}, false, notVolume(root, dir, err)
	}
	v, err = readVolume(root, dir)
	return v, placed, err
}

// notVolume explains why a directory cannot be written, with the remedy where
// the cause is its owner.
func notVolume(root durable.FS, dir string, cause error) error {
	if !errors.Is(cause, fs.ErrPermission) {
		return fmt.Errorf("%w: %q: %w", ErrNotVolume, dir, cause)
	}
	owner, at := "somebody else", othersDir(root, cause)
	if info, err := root.Stat(durable.OpProbe, at); err == nil {
		owner = fmt.Sprintf("uid %d with mode %04o", info.UID, info.Mode.Perm())
	}
	dir = filepath.Join(dir, at)
	return fmt.Errorf("%w: %q belongs to %s, and this process has uid %d (chown -R %d %q): %w",
		ErrNotVolume, dir, owner, os.Getuid(), os.Getuid(), dir, cause)
}

// othersDir is what is not this process's own on the way to what could not be
// written, the deepest of it: another volume may be mounted within this one. It is
// the volume itself, ".", where there is nothing of that kind.
func othersDir(root durable.FS, cause error) string {
	failed, ok := errors.AsType[*fs.PathError](cause)
	if !ok || !filepath.IsLocal(failed.Path) {
		return "."
	}
	for at := filepath.Clean(failed.Path); at != "."; at = filepath.Dir(at) {
		if info, err := root.Stat(durable.OpProbe, at); err == nil && info.UID != os.Getuid() {
			return at
		}
	}
	return "."
}

// newUUID returns a random UUID (version 4).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

func validUUID(s string) bool {
	return len(s) == 36 && strings.Trim(s, "0123456789abcdef-") == ""
}

// Agents lists the names of the agents that have a directory in a volume,
// sorted. It writes nothing. A directory that is no volume is fs.ErrNotExist.
func Agents(dir string) ([]string, error) {
	root, err := durable.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if _, err := readVolume(root, dir); err != nil {
		return nil, err
	}
	return listDir(root, agentsDir)
}

// CountSessions counts the sessions of all agents in a volume, by their files.
// It writes nothing. A directory that is no volume is fs.ErrNotExist.
func CountSessions(dir string) (count int, err error) {
	by, err := SessionsByAgent(dir)
	for _, n := range by {
		count += n
	}
	return count, err
}

// SessionsByAgent is CountSessions for each agent that has a directory.
func SessionsByAgent(dir string) (map[string]int, error) {
	agents, err := Agents(dir)
	if err != nil {
		return nil, err
	}
	root, err := durable.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	by := map[string]int{}
	for _, agent := range agents {
		n := 0
		err := eachName(root, agent, "", []string{sessionsDir}, func(string) bool { n++; return true })
		if err != nil {
			return nil, err
		}
		by[agent] = n
	}
	return by, nil
}

// listDir lists a directory; a missing one is empty.
func listDir(root durable.FS, dir string) ([]string, error) {
	names, err := root.ReadDir(durable.OpListDir, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return names, err
}

// suffixIn is what follows a session's name in a directory.
func suffixIn(dir string) string {
	if dir == locksDir {
		return lockSuffix
	}
	return sessionSuffix
}

// eachName calls yield for the name of every session of an agent that has a file
// in one of the directories, that of the sessions or that of their locks, and
// sorts behind after. It goes on in order until yield returns false.
func eachName(root durable.FS, agent, after string, dirs []string, yield func(name string) bool) error {
	under := agentsDir + "/" + agent + "/"
	shards, err := union(root, under, "", dirs, func(_, shard string) (string, bool) {
		return shard, len(after) < len(shard) || shard >= after[:len(shard)]
	})
	if err != nil {
		return err
	}
	for _, shard := range shards {
		names, err := union(root, under, "/"+shard, dirs, func(dir, file string) (string, bool) {
			name, ok := strings.CutSuffix(file, suffixIn(dir))
			return name, ok && validName(name) && name > after
		})
		if err != nil {
			return err
		}
		for _, name := range names {
			if !yield(name) {
				return nil
			}
		}
	}
	return nil
}

// union lists directories as one: what keep makes of each entry, sorted, and
// once.
func union(root durable.FS, before, behind string, dirs []string, keep func(dir, entry string) (string, bool)) (all []string, err error) {
	for _, dir := range dirs {
		entries, err := listDir(root, before+dir+behind)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			if name, ok := keep(dir, entry); ok {
				all = append(all, name)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
