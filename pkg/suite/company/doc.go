// Package company is the main suite: questions about a generated company whose facts lie in a database, in internal
// documents and on the web, each behind a tool of its own price, with a calculator beside them. It asks whether a policy learns the cheapest
// sufficient combination of tools, and whether that holds for combinations it never saw. One seed gives one world, byte for
// byte; entities stand in all stores, each attribute in one, so that every gold tool is needed (CheckLeaks, CheckCheapest)
// and the gold path is the cheapest at any prices; no fact, name or question is shared between splits (CheckSplits). The
// choices behind the world, the templates and the rules of the scripted baselines are written down in
// docs/company_suite.md. The package plays no episodes and knows no models.
package company
