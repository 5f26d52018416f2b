package shared

import (
	"testing"

	"github.com/fenceproxy/fenceproxy/proxy/torture"
)

func TestMain(m *testing.M) { torture.Main(m) }
