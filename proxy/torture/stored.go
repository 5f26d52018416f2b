package torture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// Look reads the store of a proxy that does not run, and records for each of the
// keys what it has (0 for nothing). It changes nothing in it.
func (p *Proxy) Look(keys []string) error {
	var told bytes.Buffer
	cmd := exec.Command(p.binary, "store", "export", "--config", p.config)
	cmd.Stderr = &told
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("reading the store: %w\n%s", err, told.Bytes())
	}
	highest := map[string]uint64{}
	for line := range bytes.Lines(out) {
		var record struct { // the first and the last line are none, and have neither
			Key     string `json:"key"`
			Highest string `json:"highest"`
		}
		if err := json.Unmarshal(line, &record); err != nil {
			return fmt.Errorf("reading the store: %w in %s", err, line)
		}
		if record.Key == "" {
			continue
		}
		text, _, _ := strings.Cut(record.Highest, ".")
		token, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return fmt.Errorf("reading the store: %w in %s", err, line)
		}
		highest[record.Key[strings.IndexByte(record.Key, ':')+1:]] = token
	}
	for _, key := range keys {
		p.h.Add(Event{Kind: Stored, Key: key, Token: highest[key]})
	}
	return nil
}

// kept: rules 4 and 6. What was admitted, or was named as the highest to one who
// was refused, was on the disk before: it is in the store that a process left
// behind, however it ended. (What a power cut takes as well is not seen here: the
// store's own tests cut the power.)
func kept(h []Event, _ Limits) (bad []string) {
	told := map[string]Event{} // the event that told of the highest token
	for i, e := range h {
		t := told[e.Key]
		switch {
		case e.Kind == Stored:
			if e.Token < t.Token {
				bad = append(bad, fmt.Sprintf("key %s: the store has %d (event %d), though write %d had shown (%s, %v) that %d was on the disk",
					e.Key, e.Token, i, t.ID, t.Kind, t.At, t.Token))
			}
		case e.Kind == Answer && e.Name == staleToken:
			e.Token = e.Highest
		case e.Kind == Arrive, e.Kind == Answer && e.raises():
		default:
			continue
		}
		if e.Token > t.Token {
			told[e.Key] = e
		}
	}
	return bad
}
