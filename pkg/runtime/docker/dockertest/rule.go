package dockertest

import (
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
)

// parseRule reads a router's rule: matchers with backquoted values, "&&", "||",
// "!" and parentheses, as Traefik v3 has them. A matcher that is not played is
// an error.
func parseRule(rule string) (func(*http.Request) bool, error) {
	p := &ruleParser{rest: rule}
	match, err := p.or()
	if err == nil && p.skip() != "" {
		err = fmt.Errorf("cannot read the rest of it: %q", p.rest)
	}
	if err != nil {
		return nil, fmt.Errorf("rule %q: %w", rule, err)
	}
	return match, nil
}

type matcher = func(*http.Request) bool

type ruleParser struct{ rest string }

func (p *ruleParser) skip() string {
	p.rest = strings.TrimLeft(p.rest, " \t\n")
	return p.rest
}

// take consumes a word if it is next.
func (p *ruleParser) take(word string) bool {
	rest, ok := strings.CutPrefix(p.skip(), word)
	if ok {
		p.rest = rest
	}
	return ok
}

func (p *ruleParser) or() (matcher, error) {
	left, err := p.and()
	for err == nil && p.take("||") {
		var right matcher
		if right, err = p.and(); err == nil {
			a := left
			left = func(r *http.Request) bool { return a(r) || right(r) }
		}
	}
	return left, err
}

func (p *ruleParser) and() (matcher, error) {
	left, err := p.one()
	for err == nil && p.take("&&") {
		var right matcher
		if right, err = p.one(); err == nil {
			a := left
			left = func(r *http.Request) bool { return a(r) && right(r) }
		}
	}
	return left, err
}

func (p *ruleParser) one() (matcher, error) {
	if p.take("!") {
		inner, err := p.one()
		return func(r *http.Request) bool { return !inner(r) }, err
	}
	if p.take("(") {
		inner, err := p.or()
		if err == nil && !p.take(")") {
			err = fmt.Errorf("a parenthesis is not closed before %q", p.rest)
		}
		return inner, err
	}
	name, rest, ok := strings.Cut(p.skip(), "(")
	if !ok {
		return nil, fmt.Errorf("a matcher is missing before %q", p.rest)
	}
	p.rest = rest
	var args []string
	for {
		if !p.take("`") {
			return nil, fmt.Errorf("a value in backquotes is missing before %q", p.rest)
		}
		value, rest, ok := strings.Cut(p.rest, "`")
		if !ok {
			return nil, fmt.Errorf("a value is not closed")
		}
		args, p.rest = append(args, value), rest
		if p.take(")") {
			return newMatcher(strings.TrimSpace(name), args)
		}
		if !p.take(",") {
			return nil, fmt.Errorf("a parenthesis is not closed before %q", p.rest)
		}
	}
}

func newMatcher(name string, args []string) (matcher, error) {
	want := map[string]int{"Host": 1, "Path": 1, "PathPrefix": 1, "PathRegexp": 1, "Method": 1, "Header": 2, "HeaderRegexp": 2}
	if n, ok := want[name]; !ok || n != len(args) {
		return nil, fmt.Errorf("dockertest does not play %s with %d values", name, len(args))
	}
	last := args[len(args)-1]
	var pattern *regexp.Regexp
	if strings.HasSuffix(name, "Regexp") {
		var err error
		if pattern, err = regexp.Compile(last); err != nil {
			return nil, err
		}
	}
	switch name {
	case "Host":
		return func(r *http.Request) bool {
			host := r.Host
			if h, _, err := net.SplitHostPort(host); err == nil {
				host = h
			}
			return strings.EqualFold(strings.Trim(host, "[]"), last)
		}, nil
	case "Path":
		return func(r *http.Request) bool { return r.URL.Path == last }, nil
	case "PathPrefix":
		return func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, last) }, nil
	case "PathRegexp":
		return func(r *http.Request) bool { return pattern.MatchString(r.URL.Path) }, nil
	case "Method":
		return func(r *http.Request) bool { return r.Method == strings.ToUpper(last) }, nil
	case "Header":
		return func(r *http.Request) bool { return r.Header.Get(args[0]) == last }, nil
	}
	return func(r *http.Request) bool {
		for _, v := range r.Header.Values(args[0]) {
			if pattern.MatchString(v) {
				return true
			}
		}
		return false
	}, nil
}
