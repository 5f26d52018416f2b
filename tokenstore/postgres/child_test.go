package postgres

const childRole = "FENCEPROXY_POSTGRES_TEST_ROLE"

func runChild(string) int { return 0 }
