/** Writes `schemas/recipe.schema.json`: `node src/adapters/recipes/write-schema.ts`. A test fails if it is out of date. */
import { writeFile } from 'node:fs/promises'
import { recipeSchemaText } from './schema-map.ts'

await writeFile(new URL('../../../schemas/recipe.schema.json', import.meta.url), recipeSchemaText())
