/** A YAML file of one document, read when the plugin is built. */
declare module "*.yaml" {
  const value: any;
  export default value;
}
