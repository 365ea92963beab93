package verify

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/flisk-go/flisk/pkg/turn"
)

// missingFile takes the file of a session away. That the session was there is
// still known, by its lock file; to begin it anew would be to forget it without
// a word.
func missingFile() Check {
	return Check{
		Name:    "missing-file",
		Promise: "a session whose file is gone is refused, not begun anew",
		How:     "a turn, take the session's file away, a turn, SIGKILL, a turn; put it back",
		Turns:   3,
		run: func(ctx context.Context, s *scene) error {
			l := s.session()
			first, err := s.turn(ctx, l)
			if err != nil {
				return err
			}
			before, err := s.look(ctx, l)
			if err != nil {
				return err
			}
			path, err := s.sessionFile(first.TurnID)
			if err != nil {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := os.Remove(path); err != nil {
				return err
			}
			if err := s.refused(ctx, l, "the process that had it"); err != nil {
				return err
			}
			if _, err := s.kill(ctx, l); err != nil {
				return err
			}
			if err := s.refused(ctx, l, "a new process"); err != nil {
				return err
			}
			if _, err := os.Lstat(path); err == nil {
				return s.broke(Lost, l, "its file was gone, and the agent made a new one")
			}
			if err := os.WriteFile(path, content, 0o600); err != nil {
				return err
			}
			if err := s.unchanged(ctx, l, before, "taking its file away and putting it back"); err != nil {
				return err
			}
			s.saw("without its file: 503, in two processes")
			s.saw("with it again: turn %d, as before", before.Turn)
			return nil
		},
	}
}

// sessionFile is the path of the session's file that a turn is in.
func (s *scene) sessionFile(turnID string) (string, error) {
	name, _, _ := strings.Cut(turnID, "-")
	sessions := filepath.Join(s.target.Volume(), "a", s.Agent, "s")
	shards, err := os.ReadDir(sessions)
	if err != nil {
		return "", err
	}
	var found []string
	for _, shard := range shards {
		path := filepath.Join(sessions, shard.Name(), name+".jsonl")
		if _, err := os.Lstat(path); err == nil {
			found = append(found, path)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("turn %s has %s on the volume", turnID, count(len(found), "session file"))
	}
	return found[0], nil
}

// refused sends a turn to a session that cannot be read.
func (s *scene) refused(ctx context.Context, l *ledger, by string) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	got, err := s.post(ctx, s.attempt(l))
	switch {
	case err != nil:
		return err
	case got.ok():
		return s.broke(Lost, l, "its file was gone, and %s went on with it as if nothing had been said: %s", by, got)
	case got.problem != turn.SessionDamaged:
		return fmt.Errorf("a turn of a session without its file was answered %s", got)
	}
	return nil
}
