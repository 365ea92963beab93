package project

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/flisk-go/flisk/pkg/fault"
)

// maxFile bounds flisk.yaml and env files. What people edit has a few kilobytes.
const maxFile = 1 << 20

// Load reads the flisk.yaml of dir, or of the nearest directory above it that
// has one. It returns what is odd but harmless as warnings.
//
// An error is a [*fault.Fault] of kind Usage. When the file was read and is
// wrong, its cause is [Problems].
func Load(dir string) (*Project, []Warning, error) {
	root, err := Find(dir)
	if err != nil {
		return nil, nil, err
	}
	data, err := read(filepath.Join(root, FileName))
	if err != nil {
		return nil, nil, err
	}
	return Parse(root, data)
}

// Parse is [Load] for the content of a flisk.yaml that is, or will be, in dir: an
// absolute path, free of symbolic links. Nothing is read from there.
func Parse(dir string, data []byte) (*Project, []Warning, error) {
	p := defaults(dir)
	d := decode(data, &p)
	if len(d.problems) > 0 {
		return nil, nil, d.problems.fault()
	}
	return &p, d.warnings, nil
}

// Find returns the project that dir belongs to: dir itself, or the nearest
// directory above it, that holds a flisk.yaml. The result is absolute and free
// of symbolic links, so that one project has one name. It does not read the
// file.
func Find(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	const hint = "-C DIR names the directory of a project"
	if errors.Is(err, fs.ErrNotExist) {
		return "", fault.New(fault.Usage, hint, "there is no directory %q", dir)
	}
	if err != nil {
		return "", fault.New(fault.Usage, "", "cannot look for %s: %w", FileName, err)
	}
	for at := abs; ; at = filepath.Dir(at) {
		_, err := os.Lstat(filepath.Join(at, FileName))
		switch {
		case err == nil:
			return at, nil
		case errors.Is(err, syscall.ENOTDIR):
			return "", fault.New(fault.Usage, hint, "%q is not a directory", dir)
		case !errors.Is(err, fs.ErrNotExist) && at == abs:
			return "", fault.New(fault.Usage, "", "cannot look for %s: %w", FileName, err)
		case at == filepath.Dir(at):
			return "", fault.New(fault.Usage,
				`"flisk init" makes a project; -C DIR names one that is elsewhere`,
				"there is no %s in %q or above it", FileName, abs)
		}
	}
}

// read returns the content of a file, if it is one that people can have written.
// The kind is looked at before the file is opened: opening a pipe would wait.
func read(path string) ([]byte, error) {
	refuse := func(hint string, format string, args ...any) error {
		return fault.New(fault.Usage, hint, "cannot read %q: %w", path, fmt.Errorf(format, args...))
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, refuse("", "it is a symbolic link to nothing")
	case err != nil:
		return nil, refuse("", "%w", cause(err))
	case info.IsDir():
		return nil, refuse("", "it is a directory")
	case !info.Mode().IsRegular():
		return nil, refuse("", "it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, refuse("check the file's owner and permissions", "%w", cause(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, refuse("", "%w", cause(err))
	}
	if len(data) > maxFile {
		return nil, refuse("", "it is larger than 1 MiB")
	}
	return data, nil
}

// cause leaves out operation and path, which the message has already.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// decode reads the file's content into p, which holds the defaults.
func decode(data []byte, p *Project) *decoder {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	d := &decoder{lines: strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")}
	if !d.readable(data) {
		return d
	}
	var documents []yaml.Node
	if err := yaml.Load(data, &documents, yaml.WithAllDocuments()); err != nil {
		d.syntax(err)
		return d
	}
	switch {
	case len(documents) == 0:
		d.problems = append(d.problems, Problem{Message: `the file is empty; "flisk init" writes a complete one into a new directory`})
	case len(documents) > 1:
		d.problem(&documents[1], "the file must hold one document; a second one begins here")
	case len(documents[0].Content) == 1:
		d.project(documents[0].Content[0], p)
	}
	return d
}

// readable looks for what cannot be shown in YAML at all, for which the parser
// knows no position.
func (d *decoder) readable(data []byte) bool {
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		d.problems = append(d.problems, Problem{Message: "the file is not UTF-8 text"})
		return false
	}
	for i, line := range d.lines {
		column := 0
		for _, r := range line {
			column++
			if r != '\t' && (r < ' ' || r >= 0x7f && r < 0xa0) {
				n := &yaml.Node{Line: i + 1, Column: column}
				d.problem(n, "a control character (%U) is not allowed", r)
				return false
			}
		}
	}
	return true
}

// syntax notes what the parser said, in words that name the way out where the
// cause is one of the usual ones. Nothing behind a syntax error can be read.
func (d *decoder) syntax(err error) {
	e, ok := errors.AsType[*yaml.LoadError](err)
	if !ok || e.Mark.Line == 0 {
		d.problems = append(d.problems, Problem{Message: "the file is not YAML: " + err.Error()})
		return
	}
	n := &yaml.Node{Line: e.Mark.Line, Column: e.Mark.Column}
	if n.Line > len(d.lines) || n.Line == len(d.lines) && d.lines[n.Line-1] == "" {
		d.problem(n, "the file ends in the middle of something: %s", e.Message)
		return
	}
	line := []rune(d.lines[n.Line-1])
	indent := len(line) - len([]rune(strings.TrimLeft(string(line), " \t")))
	for i, r := range line[:indent] {
		if r == '\t' {
			n.Column = i + 1
			d.problem(n, "a tab cannot indent YAML; use spaces")
			return
		}
	}
	message := e.Message
	if at := n.Column - 1; at >= 0 && at < len(line) && strings.ContainsRune("@`%:&*!|>{}[],", line[at]) {
		message += fmt.Sprintf(" (a value with %q in it needs quotes)", line[at])
	}
	d.problem(n, "this is not YAML: %s", message)
}
