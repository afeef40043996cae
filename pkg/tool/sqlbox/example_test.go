package sqlbox_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/toolroute/toolroute/pkg/tool/sqlbox"
)

func Example() {
	dir, err := os.MkdirTemp("", "sqlbox")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "shop.db")
	err = sqlbox.Create(path, []string{"CREATE TABLE items(name TEXT, price INTEGER)"}, func(insert sqlbox.Insert) error {
		if err := insert("items", "chair", 40); err != nil {
			return err
		}
		return insert("items", "table", 90)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	db, err := sqlbox.Open(path, sqlbox.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	for _, q := range []string{"SELECT name, price FROM items WHERE price > 50", "SELECT price * 2 FROM items", "DROP TABLE items"} {
		res, err := db.Query(context.Background(), q)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(res.Text())
	}
	// Output:
	// name | price
	// table | 90
	// refused: use calculator: the operator * is not allowed
	// refused: only one SELECT is allowed
}
