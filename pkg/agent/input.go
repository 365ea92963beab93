package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// export opens an export. What comes on stdin is copied into a file without a
// name: it is read twice.
func (p process) export(name string) (*os.File, int64, error) {
	if name != "" {
		f, err := os.Open(name)
		if err != nil {
			return nil, 0, fmt.Errorf("cannot read the export: %w", err)
		}
		info, err := f.Stat()
		if err != nil {
			return nil, 0, errors.Join(fmt.Errorf("cannot read the export: %w", err), f.Close())
		}
		return f, info.Size(), nil
	}
	f, err := os.CreateTemp("", "flisk-import-*")
	if err != nil {
		return nil, 0, fmt.Errorf("there is no place to copy the export to: %w", err)
	}
	_ = os.Remove(f.Name()) // at the latest the system removes it
	size, err := io.Copy(f, p.stdin)
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("cannot read the export: %w", err), f.Close())
	}
	return f, size, nil
}
