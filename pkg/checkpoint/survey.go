package checkpoint

import (
	"io"
	"strings"
)

// Names below the root of a volume, for those who reach it file by file.
const (
	VolumeFile = volumeName // makes a directory a volume
	AgentsDir  = agentsDir  // holds everything else
)

// SessionFiles are the paths, below the root of a volume, of all that it takes
// besides [VolumeFile] to look at a session. They are to be copied in this order,
// like a [Reader] reads them; those that are not there are left out.
func SessionFiles(agent, id string) []string {
	w := identity{agent: agent, name: fileName(id)}
	return []string{w.lock(), w.path()}
}

// Survey says which sessions a volume has, from its files as they pass by one
// after the other: for a volume that comes as an archive. Of a file no more is
// kept than what the survey says. It is for one goroutine.
type Survey struct {
	Volume string // its id

	// Sessions are the ids of each agent's sessions, in the order of their files;
	// "" for one whose file does not tell. An agent that has a directory and no
	// session is there as well.
	Sessions map[string][]string
}

// NewSurvey begins the survey of a volume with its [VolumeFile]. One that cannot
// be read is an error that wraps [ErrNotVolume].
func NewSurvey(file io.Reader) (*Survey, error) {
	const most = 64 << 10 // it has a line
	data, err := io.ReadAll(io.LimitReader(file, most))
	if err != nil {
		return nil, err
	}
	v, err := decodeVolume(data, "the archive")
	if err != nil {
		return nil, err
	}
	return &Survey{v.Volume, map[string][]string{}}, nil
}

// Add takes the next file or directory by its path below the volume. Of content,
// which is nil for a directory, only the beginning is read.
func (s *Survey) Add(path string, content io.Reader) error {
	parts := strings.Split(path, "/")
	if len(parts) < 2 || parts[0] != agentsDir {
		return nil
	}
	agent := parts[1]
	if _, known := s.Sessions[agent]; !known {
		s.Sessions[agent] = nil
	}
	if len(parts) != 5 || parts[2] != sessionsDir || content == nil {
		return nil
	}
	name, ok := strings.CutSuffix(parts[4], sessionSuffix)
	if !ok || !validName(name) {
		return nil
	}
	head, err := io.ReadAll(io.LimitReader(content, headSize))
	if err != nil {
		return err
	}
	l := &fileLog{}
	_ = l.readHeader(head, identity{volume: s.Volume, agent: agent, name: name}) // it is counted all the same
	s.Sessions[agent] = append(s.Sessions[agent], l.head.Session)
	return nil
}

// Counts are the numbers of each agent's sessions.
func (s *Survey) Counts() map[string]int {
	counts := map[string]int{}
	for agent, ids := range s.Sessions {
		counts[agent] = len(ids)
	}
	return counts
}

// Count is the number of sessions of all agents.
func (s *Survey) Count() (n int) {
	for _, ids := range s.Sessions {
		n += len(ids)
	}
	return n
}
