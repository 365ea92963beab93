package verify

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// WriteJUnit writes the report as JUnit XML, as most CI systems read it: a
// broken guarantee is a failure, one that could not be checked an error.
func (r Report) WriteJUnit(w io.Writer) error {
	suite := junitSuite{
		Name: "flisk verify", Tests: len(r.Checks), Time: seconds(r.Millis),
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
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(suite); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

type junitSuite struct {
	XMLName    xml.Name        `xml:"testsuite"`
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
