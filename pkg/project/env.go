package project

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/compose-spec/compose-go/v2/dotenv"

	"github.com/flisk-go/flisk/pkg/fault"
)

// LoadEnv reads env files and returns their variables as "NAME=value", sorted;
// a later file wins. A file that does not exist is skipped. Values arrive as
// written: quotes are taken off and comments left out, and "$" is a character
// like any other; what is not UTF-8 would not arrive, and is an error. A name without "=" takes its value from the environment of
// this process, and is left out when it has none. What is not a regular file, or
// is larger than 1 MiB, is an error.
//
// Errors are faults of kind Usage, which tell where a file is in dir, the
// project's, with the line: ".env:3: …". They never show the line itself: it may
// be half of a secret.
func LoadEnv(dir string, paths []string) ([]string, error) {
	all := map[string]string{}
	for _, path := range paths {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		data, err := read(path)
		if err != nil {
			return nil, err
		}
		vars, err := parseEnv(data)
		if err != nil {
			const hint = "write one NAME=value a line, in UTF-8; a value of several lines needs quotes"
			if at, ok := errors.AsType[*lineError](err); ok {
				return nil, fault.New(fault.Usage, hint, "%s:%d: %w", within(dir, path), at.line, err)
			}
			return nil, fault.New(fault.Usage, hint, "cannot read env file %q: %w", within(dir, path), err)
		}
		maps.Copy(all, vars)
	}
	var env []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env, nil
}

// within is a path as people know it who are in dir.
func within(dir, path string) string {
	if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return path
}

// lineError is what is wrong with a line of an env file.
type lineError struct {
	line int // from 1
	what string
}

func (e *lineError) Error() string { return e.what }

// Expanded lists the variables of env files that plain Compose gives another
// value than [LoadEnv], sorted: it looks for variables behind "$" unless the
// value is in single quotes. Its errors are LoadEnv's.
func Expanded(dir string, paths []string) ([]string, error) {
	written, err := LoadEnv(dir, paths)
	if err != nil {
		return nil, err
	}
	// Every variable is empty here, so that no value with one in it stays the same.
	// (One that is not set would be told to the world by the parser, and it may be
	// the middle of a password.)
	empty := func(string) (string, bool) { return "", true }
	all := map[string]string{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // LoadEnv has said what is to be said
		}
		vars, err := dotenv.ParseWithLookup(strings.NewReader(string(data)+"\n"), empty)
		if err != nil { // "${" without an end: Compose would not read the file
			vars = map[string]string{}
		}
		maps.Copy(all, vars)
	}
	var names []string
	for _, variable := range written {
		name, value, _ := strings.Cut(variable, "=")
		if strings.Contains(value, "$") && all[name] != value {
			names = append(names, name)
		}
	}
	return names, nil
}

func parseEnv(data []byte) (map[string]string, error) {
	if bytes.IndexByte(data, 0) >= 0 {
		return nil, errors.New("it is not text")
	}
	for i, line := range bytes.Split(data, []byte("\n")) {
		if !utf8.Valid(line) {
			return nil, &lineError{i + 1, "this line is not UTF-8, and would not arrive as it is"}
		}
	}
	// The parser expands "$". It is hidden behind a byte that cannot be in the
	// data: it would have been an error just now.
	const dollar = "\x00"
	hidden := strings.ReplaceAll(string(data), "$", dollar)
	// Without a line break behind the last name the parser takes it for a value.
	parsed, err := dotenv.ParseWithLookup(strings.NewReader(hidden+"\n"), os.LookupEnv)
	if err != nil {
		// Its errors quote the line, and are told apart by nothing but text: the
		// line's number is all that is taken from them.
		var line int
		if _, scanErr := fmt.Sscanf(err.Error(), "line %d:", &line); scanErr != nil {
			return nil, errors.New("it has a line that is not NAME=value")
		}
		// A quote without an end is found behind the last line.
		last := strings.Count(strings.TrimRight(string(data), "\n"), "\n") + 1
		return nil, &lineError{min(line, last), "this line is not NAME=value"}
	}
	vars := map[string]string{}
	for name, value := range parsed {
		switch {
		case name == "":
			return nil, errors.New("it has a value without a name")
		case reserved(name):
			return nil, fmt.Errorf("%s is set by flisk itself", name)
		case !utf8.ValidString(value): // of the environment
			return nil, fmt.Errorf("the value of %s in the environment is not UTF-8, and would not arrive as it is", name)
		}
		vars[name] = strings.ReplaceAll(value, dollar, "$")
	}
	return vars, nil
}
