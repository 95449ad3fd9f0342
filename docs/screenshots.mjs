// Take the README's picture from a running UI: `make ui &`, then `node docs/screenshots.mjs [http://127.0.0.1:3000]`.
// Needs Node.js, `npm install --no-save playwright-core` and a Chromium (CHROMIUM=/usr/bin/chromium).
import { chromium } from "playwright-core";

const server = process.argv[2] ?? "http://127.0.0.1:3000";
const groups = ["reference", "gnomad", "clinvar", "windows", "corpus", "embeddings", "holdouts", "packages"];
const expanded = groups.map((group) => `global@global:${group}`).join(",");

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"],
});
const page = await browser.newPage({ viewport: { width: 3200, height: 2760 }, deviceScaleFactor: 0.55 });
await page.goto(`${server}/asset-groups?expanded=${encodeURIComponent(expanded)}`);
await page.getByText("shard").first().waitFor();
await page.waitForTimeout(4000);
await page.screenshot({ path: "docs/images/lineage.png", clip: { x: 780, y: 110, width: 2200, height: 2000 } });
await browser.close();
