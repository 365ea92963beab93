package verify

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Names in a directory of evidence.
const (
	keptVolume = "volume"
	keptLog    = "agent.log"
	keptReport = "report.json"
)

// keep copies what shows that something is broken: the volume with the sessions
// that the report names, the agent's log, and the report with its seed. It
// returns the directory also when not everything could be copied.
func keep(ctx context.Context, target Target, o Options, report Report) (string, error) {
	dir := filepath.Join(o.Keep, fmt.Sprintf("%s-%s-%d", o.Agent, time.Now().Format("20060102-150405"), o.Seed))
	if err := os.MkdirAll(o.Keep, 0o700); err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	report.Kept = dir
	text, err := json.MarshalIndent(report, "", "  ")
	return dir, errors.Join(err,
		os.WriteFile(filepath.Join(dir, keptReport), append(text, '\n'), 0o600),
		target.ReadVolume(ctx, func(volume string) error { return os.CopyFS(filepath.Join(dir, keptVolume), os.DirFS(volume)) }),
		keepLog(ctx, target, filepath.Join(dir, keptLog)))
}

func keepLog(ctx context.Context, target Target, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	err = target.Logs(ctx, false, func(line string) error {
		_, err := out.WriteString(line + "\n")
		return err
	})
	return errors.Join(err, out.Flush(), f.Close())
}
