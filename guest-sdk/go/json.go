package guesthouse

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// encode writes a value as every SDK does: <, >, &, U+2028 and U+2029 as they are. The body of a request must not change its
// bytes when a plugin is written anew in another language, since then it would be another request under the same key.
func encode(value any) (JSON, error) {
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	if err := to.Encode(value); err != nil {
		return nil, err
	}
	text := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	if bytes.Contains(text, []byte(`\u202`)) {
		// The first pair steps over escaped backslashes.
		as := strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029")
		text = []byte(as.Replace(string(text)))
	}
	return text, nil
}

// MarshalJSON writes the source as a variant.
func (n Need) MarshalJSON() ([]byte, error) {
	if n.Source == nil {
		return nil, fmt.Errorf("need `%s` has no source", n.Name)
	}
	return encode(struct {
		Name   string  `json:"name"`
		Source variant `json:"source"`
		View   View    `json:"view,omitempty"`
		Limit  uint32  `json:"limit,omitempty"`
	}{n.Name, variant{n.Source.source(): n.Source}, n.View, n.Limit})
}

// UnmarshalJSON reads the state, a variant, into members of the receipt: a case without payload is its name.
func (r *Receipt) UnmarshalJSON(text []byte) error {
	type plain Receipt
	var it struct{ State JSON }
	if err := errors.Join(json.Unmarshal(text, (*plain)(r)), json.Unmarshal(text, &it)); err != nil {
		return err
	}
	if r.Unknown = string(it.State) == `"unknown"`; r.Unknown {
		return nil
	}
	return json.Unmarshal(it.State, (*plain)(r))
}

// UnmarshalJSON reads a variant: a case without payload is its name.
func (b *Body) UnmarshalJSON(text []byte) error {
	var body struct {
		Text  string `json:"text"`
		Bytes []byte `json:"bytes"`
	}
	if string(text) != `"empty"` {
		if err := json.Unmarshal(text, &body); err != nil {
			return err
		}
	}
	*b = append(body.Bytes, body.Text...)
	return nil
}

// MarshalJSON writes a variant; an empty body is left out before it comes to that.
func (b Body) MarshalJSON() ([]byte, error) {
	if utf8.Valid(b) {
		return encode(variant{"text": string(b)})
	}
	return encode(variant{"bytes": []byte(b)})
}
