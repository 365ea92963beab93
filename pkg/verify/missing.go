package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
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
			file, err := s.sessionFile(ctx, first.TurnID)
			if err != nil {
				return err
			}
			if err := s.target.MoveFile(ctx, file, takenAway); err != nil {
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
			switch again, err := s.sessionFile(ctx, first.TurnID); {
			case err == nil && again == file:
				return s.broke(Lost, l, "its file was gone, and the agent made a new one")
			case err != nil && !errors.Is(err, fs.ErrNotExist):
				return err
			}
			if err := s.target.MoveFile(ctx, takenAway, file); err != nil {
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

// takenAway is what a session's file is called while it is away. The store knows
// no such name.
const takenAway = "taken-away-by-verify"

// sessionFile is the file of the session that a turn is in, relative to the
// volume. None is fs.ErrNotExist.
func (s *scene) sessionFile(ctx context.Context, turnID string) (file string, err error) {
	name, _, _ := strings.Cut(turnID, "-")
	err = s.target.ReadVolume(ctx, func(dir string) error {
		sessions := path.Join("a", s.Agent, "s")
		shards, err := os.ReadDir(filepath.Join(dir, filepath.FromSlash(sessions)))
		if err != nil {
			return err
		}
		var found []string
		for _, shard := range shards {
			here := path.Join(sessions, shard.Name(), name+".jsonl")
			if _, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(here))); err == nil {
				found = append(found, here)
			}
		}
		if len(found) != 1 {
			return fmt.Errorf("turn %s has %s on the volume: %w", turnID, count(len(found), "session file"), fs.ErrNotExist)
		}
		file = found[0]
		return nil
	})
	return file, err
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
