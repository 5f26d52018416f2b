package guard

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const secret = "0123456789abcdef"

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReadToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for text, ok := range map[string]bool{secret: true, secret + "\n": true, secret + "\r\n": true, "": false, "short": false, secret + " x": false,
		secret + "\n" + secret: false, secret + "é": false, " " + secret: false, strings.Repeat("x", 5000): false} {
		write(t, path, text)
		if _, err := ReadToken(path); (err == nil) != ok {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	if _, err := ReadToken(filepath.Dir(path)); err == nil {
		t.Error("a directory is a token")
	}
	if _, err := ReadToken(path + ".none"); err == nil {
		t.Error("no file is a token")
	}
}

// A new token counts within a second, and one that cannot be used leaves the
// old one.
func TestTokenChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "token")
		write(t, path, secret)
		token, err := ReadToken(path)
		if err != nil {
			t.Fatal(err)
		}
		knows := func(given string) bool {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("Authorization", "Bearer "+given)
			time.Sleep(lookAgain)
			return token.In(r)
		}
		next := secret + "next"
		if !knows(secret) || knows(next) {
			t.Error("the first token")
		}
		write(t, path, "short")
		if !knows(secret) || knows("short") {
			t.Error("a token that cannot be used was taken")
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if !knows(secret) || knows("") {
			t.Error("a file that is gone changes the token")
		}
		write(t, path, next)
		if knows(secret) || !knows(next) {
			t.Error("the next token was not taken")
		}
	})
}

func TestReadBody(t *testing.T) {
	type body struct {
		A string `json:"a"`
		B int    `json:"b"`
	}
	for text, ok := range map[string]bool{`{"a":"x","b":1}`: true, " {\n}\n": true, `{"a":{}}`: false, `{"a":"x","a":"y"}`: false, `{"A":"x"}`: false, `{"a":"x","A":"y"}`: false,
		`{"a":"x"}{}`: false, `{"a":"x"} x`: false, `{"c":1}`: false, ``: false, `[]`: false, `null`: false, `{"a":"x"`: false, `{"a":"x",}`: false, `{"b":1.5}`: false, `{"a":"` + strings.Repeat("x", maxBody) + `"}`: false} {
		var b body
		err := ReadBody(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(text)), &b)
		if (err == nil) != ok {
			t.Errorf("%.40s: %v", text, err)
		}
	}
}
