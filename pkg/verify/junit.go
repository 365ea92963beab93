package verify

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// WriteJUnit writes reports as JUnit XML, as most CI systems read it: a suite for
// each agent, in which a broken guarantee is a failure and one that could not be
// checked an error.
func WriteJUnit(w io.Writer, reports []Report) error {
	all := junitSuites{Name: "flisk verify"}
	for _, r := range reports {
		all.Suites = append(all.Suites, r.junit())
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (r Report) junit() junitSuite {
	suite := junitSuite{
		Name: "flisk verify " + r.Agent, Tests: len(r.Checks), Time: seconds(r.Millis),
		Failures: r.Count(Broken), Errors: r.Count(Unchecked), Skipped: r.Count(Skipped),
		Properties: []junitProperty{{"agent", r.Agent}, {"code", r.Code}, {"seed", fmt.Sprint(r.Seed)}, {"kept", r.Kept}},
	}
	for _, c := range r.Checks {
		out := junitCase{Name: c.Check, Class: "flisk.verify." + r.Agent, Time: seconds(c.Millis)}
		text := &junitText{Message: clean(c.Summary()), Text: clean(c.Promise + "\n" + strings.Join(c.Seen, "\n"))}
		switch c.Verdict {
		case Broken:
			out.Failure = text
		case Unchecked:
			out.Error = text
		case Skipped:
			out.Skipped = &junitText{Message: clean(c.Reason)}
		default:
			out.Output = clean(strings.Join(c.Seen, "\n"))
		}
		suite.Cases = append(suite.Cases, out)
	}
	return suite
}

type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Name    string       `xml:"name,attr"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Name    string     `xml:"name,attr"`
	Class   string     `xml:"classname,attr"`
	Time    string     `xml:"time,attr"`
	Failure *junitText `xml:"failure"`
	Error   *junitText `xml:"error"`
	Skipped *junitText `xml:"skipped"`
	Output  string     `xml:"system-out,omitempty"`
}

type junitText struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func seconds(millis int64) string { return fmt.Sprintf("%.3f", float64(millis)/1000) }

// clean leaves out what XML cannot hold: a reply may have any character.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0xfffe || r == 0xffff {
			return -1
		}
		return r
	}, s)
}
