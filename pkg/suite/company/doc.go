// Package company is the main suite: questions about a generated company whose facts lie in a database, in internal
// documents and on the web, each behind a tool of its own price, with a calculator beside them. It asks whether a policy learns the cheapest
// sufficient combination of tools, and whether that holds for combinations it never saw. One seed gives one world, byte for byte. Entities
// occur in all stores, but each attribute in one only. So every gold tool is needed, and the gold path is the cheapest at any prices
// (CheckLeaks, CheckCheapest). Splits share no fact, name or question (CheckSplits). The choices behind the world, the templates and the
// rules of the scripted baselines are written down in docs/company_suite.md. The package plays no episodes and knows no models.
package company
