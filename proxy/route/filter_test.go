package route

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFilters(t *testing.T) {
	const none = "key-unresolvable"
	const id = "01890c2e-6f5a-7cc1-98a1-2f0f5cc0a1b2"
	bare := strings.ReplaceAll(id, "-", "")
	for _, test := range []struct{ key, value, want string }{
		{"{x|lower}", "AbC", "abc"},
		{"{x|lower}", "%C3%89%E2%84%AA", "%C3%A9k"}, // É and the Kelvin sign
		{"{x|int}", "007", "7"},
		{"{x|int}", "7", "7"},
		{"{x|int}", "000", "0"},
		{"{x|int}", strings.Repeat("9", 40), strings.Repeat("9", 40)},
		{"{x|int}", "-7", none},
		{"{x|int}", "+7", none},
		{"{x|int}", "7.0", none},
		{"{x|int}", "0x7", none},
		{"{x|int}", "7%20", none},
		{"{x|int}", "%D9%A7", none}, // ARABIC-INDIC DIGIT SEVEN
		{"{x|trim|int}", "%20007%20", "7"},
		{"{x|int|trim}", "%20007%20", none},
		{"{x|uuid}", id, id},
		{"{x|uuid}", strings.ToUpper(id), id},
		{"{x|uuid}", bare, id},
		{"{x|uuid}", "%7B" + id + "%7D", id},
		{"{x|uuid}", "%7B" + bare + "%7D", id},
		{"{x|uuid}", "URN:uuid:" + id, id},
		{"{x|uuid}", "urn:uuid:%7B" + id + "%7D", id},
		{"{x|uuid}", "%7B" + id, none},
		{"{x|uuid}", id + "%7D", none},
		{"{x|uuid}", "{}", none},
		{"{x|uuid}", id[:35], none},
		{"{x|uuid}", id[:35] + "g", none},
		{"{x|uuid}", "0189-0c2e6f5a7cc198a12f0f5cc0a1b2", none},
		{"{x|uuid}", "1-1-1-1-1", none},
		{"{x|uuid}", "0x" + bare[2:], none},
		{"{x|uuid}", "urn:uuid:", none},
		{"{x|trim}", "%20a%20b%20", "a%20b"},
		{"{x|trim}", "%C2%A0a", "a"}, // a no-break space
		{"{x|trim}", "%20", none},
		{"{x|trim|lower}", "%20A", "a"},
		{"{query.x|lower}", "a?x=ABC", "abc"},
		{"{header.X-To|int}", "a", "9"},
		{"{host|lower}", "a", "example.com"},
		{"{path|lower}", "ABC", "/a/abc"},
	} {
		t.Run(test.key+" "+test.value, func(t *testing.T) {
			table := mustNew(t, Rule{Name: "r", Paths: []string{"/a/{x}"}, Keys: keyed(test.key)})
			if got, detail := result(t, table, byHand("PUT", "/a/"+test.value, "X-To: 09")); got != test.want {
				t.Fatalf("got %s (%s), want %s", got, detail, test.want)
			}
		})
	}
}

// A filter behind a filter changes nothing more, and what it makes of a value
// is a value that it leaves alone. Letter case makes no other value.
func FuzzFilter(f *testing.F) {
	for _, seed := range []string{"", "007", " A ", "{01890C2E6F5A7CC198A12F0F5CC0A1B2}", "\u212a", "\u0130", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for name := range filterNames {
			filter := filter(name)
			once, why := filter.apply(value)
			if why != "" {
				continue
			}
			if twice, why := filter.apply(once); why != "" || twice != once {
				t.Fatalf("%s makes %q of %q, and then %q (%s)", filter, once, value, twice, why)
			}
		}
		if capitals := strings.ToUpper(value); utf8.ValidString(value) && lower(capitals) != lower(value) {
			t.Fatalf("%q and %q fold to %q and %q", value, capitals, lower(value), lower(capitals))
		}
	})
}

// What a framework may take for a key's field, or trim off its value, is not
// taken for another one.
func TestNamesThatFrameworksMerge(t *testing.T) {
	for _, name := range []string{"order_id", "order[id", "order_id]", "[order_id]", "]order_id", "order.id", "ORDER_ID", "order_id[]", "order_id\x00x", "[ order_id", "order_id\t]", "order_id []"} {
		if !foldsToField(name, "order_id") {
			t.Errorf("%q is taken for another field than order_id", name)
		}
	}
	if foldsToField("order", "order_id") || foldsToField("my[order_id]", "order_id") {
		t.Error("another field is taken for order_id")
	}
	for _, value := range []string{"42", " 42", "\u001c42", "\ufeff42", "42\u00a0", "\u202842"} {
		if got, why := filterTrim.apply(value); got != "42" || why != "" {
			t.Errorf("%q trims to %q %s", value, got, why)
		}
	}
	for _, name := range []string{"id\x00", "id\ufffd"} {
		if same, why := sameName(name, "id"); !same || why == "" {
			t.Errorf("%q beside id passes", name)
		}
	}
}
