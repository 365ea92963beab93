package docker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// message is one line of the stream that a build, a pull or a load answers with.
// The status of the answer says only that the work began: how it ended is in
// here.
type message struct {
	Stream   string          `json:"stream"` // a build's output
	ID       string          `json:"id"`     // of a pulled layer
	Status   string          `json:"status"`
	Progress progressDetail  `json:"progressDetail"`
	Error    string          `json:"error"`
	Detail   *errorDetail    `json:"errorDetail"`
	Aux      json.RawMessage `json:"aux"`
}

type progressDetail struct {
	Current int64 `json:"current"`
	Total   int64 `json:"total"`
}

type errorDetail struct {
	Message string `json:"message"`
}

func (m message) err() error {
	switch {
	case m.Detail != nil && m.Detail.Message != "":
		return errors.New(strings.TrimSpace(m.Detail.Message))
	case m.Error != "":
		return errors.New(strings.TrimSpace(m.Error))
	}
	return nil
}

// image is the id of an image that the message names; "" when it names none.
func (m message) image() string {
	var aux struct{ ID string }
	if json.Unmarshal(m.Aux, &aux) != nil { // other kinds of aux say something else
		return ""
	}
	return aux.ID
}

// readMessages writes the output to w and shows each message to the takers. An
// error in the stream is an error.
func readMessages(r io.Reader, w io.Writer, takers ...func(message)) error {
	var layers layerProgress
	for decoder := json.NewDecoder(r); ; {
		var m message
		switch err := decoder.Decode(&m); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := m.err(); err != nil {
			return err
		}
		for _, take := range takers {
			take(m)
		}
		text := m.Stream
		if text == "" {
			text = layers.line(m)
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
}

// layerProgress makes few lines of the many messages of a pull: one for each
// change of a layer's status, and one for each tenth of all that is known to
// come.
type layerProgress struct {
	status map[string]string
	layers map[string]progressDetail
	tenth  int64
}

func (p *layerProgress) line(m message) string {
	if m.Status == "" {
		return ""
	}
	if m.ID == "" {
		return m.Status + "\n"
	}
	if p.status == nil {
		p.status, p.layers = map[string]string{}, map[string]progressDetail{}
	}
	if m.Status == "Downloading" && m.Progress.Total > 0 {
		p.layers[m.ID] = m.Progress
		var sum progressDetail
		for _, l := range p.layers {
			sum.Current, sum.Total = sum.Current+l.Current, sum.Total+l.Total
		}
		if tenth := 10 * sum.Current / sum.Total; tenth > p.tenth {
			p.tenth = tenth
			return fmt.Sprintf("%s of %s\n", size(sum.Current), size(sum.Total))
		}
		return ""
	}
	if p.status[m.ID] == m.Status || m.Progress.Total > 0 {
		return ""
	}
	p.status[m.ID] = m.Status
	return m.ID + ": " + m.Status + "\n"
}

// size is a number of bytes for people.
func size(n int64) string {
	const kB, MB, GB = 1e3, 1e6, 1e9
	switch f := float64(n); {
	case f >= GB:
		return fmt.Sprintf("%.1f GB", f/GB)
	case f >= MB:
		return fmt.Sprintf("%.1f MB", f/MB)
	case f >= kB:
		return fmt.Sprintf("%.0f kB", f/kB)
	}
	return fmt.Sprintf("%d B", n)
}
