package stepinto.runner;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Collections;

/** TestNG, by reflection: its listener interfaces differ from version to version. */
final class TestNgFramework extends Framework {
    @Override
    Class<?> canary() {
        return TestNgCanary.class;
    }

    @Override
    void run(Selection selection, Report report) throws Exception {
        Object runner = type("org.testng.TestNG").getConstructor(boolean.class).newInstance(false);
        call(runner, "setVerbose", int.class, 0);
        call(runner, "setXmlSuites", java.util.List.class,
                Collections.singletonList(suite(selection)));
        addListener(runner, listener(report));
        runner.getClass().getMethod("run").invoke(runner);
    }

    private static Object suite(Selection selection) throws Exception {
        Object suite = type("org.testng.xml.XmlSuite").getConstructor().newInstance();
        Class<?> suiteType = suite.getClass();
        Object test = type("org.testng.xml.XmlTest").getConstructor(suiteType).newInstance(suite);
        Object chosen = type("org.testng.xml.XmlClass").getConstructor(Class.class)
                .newInstance(selection.type);
        if (selection.method != null) {
            Object include = include(selection);
            call(chosen, "setIncludedMethods", java.util.List.class,
                    Collections.singletonList(include));
        }
        call(test, "setXmlClasses", java.util.List.class, Collections.singletonList(chosen));
        return suite;
    }

    private static Object include(Selection selection) throws Exception {
        Class<?> type = type("org.testng.xml.XmlInclude");
        if (selection.invocation == null) {
            return type.getConstructor(String.class).newInstance(selection.method);
        }
        java.util.List<Integer> numbers = Collections.singletonList(selection.number(0));
        return type.getConstructor(String.class, java.util.List.class, int.class)
                .newInstance(selection.method, numbers, 0);
    }

    private static void addListener(Object runner, Object listener) throws Exception {
        String[] parameters = {"org.testng.ITestNGListener", "org.testng.ITestListener"};
        for (String parameter : parameters) {
            try {
                call(runner, "addListener", type(parameter), listener);
                return;
            } catch (NoSuchMethodException error) {
                continue;
            }
        }
        call(runner, "addListener", Object.class, listener);
    }

    private static Object listener(final Report report) throws ClassNotFoundException {
        Class<?>[] types = {type("org.testng.ITestListener")};
        return Proxy.newProxyInstance(types[0].getClassLoader(), types, new InvocationHandler() {
            @Override
            public Object invoke(Object proxy, Method method, Object[] arguments)
                    throws Throwable {
                String name = method.getName();
                if (method.getDeclaringClass() == Object.class) {
                    return name.equals("equals") ? (Object) (proxy == arguments[0])
                            : name.equals("hashCode")
                                    ? (Object) System.identityHashCode(this) : "listener";
                }
                if (name.startsWith("onTest")) {
                    tell(report, name, arguments[0]);
                }
                // TestNG 7.10 and later ask each listener whether it is enabled.
                return method.getReturnType() == boolean.class ? true : null;
            }
        });
    }

    private static void tell(Report report, String event, Object result) throws Exception {
        String test = name(result);
        if (event.equals("onTestStart")) {
            report.started(test);
        } else if (event.equals("onTestSuccess")) {
            report.passed(test, invocation(result));
        } else if (event.equals("onTestSkipped")) {
            report.skipped(test, invocation(result), null);
        } else {
            Throwable error = (Throwable) get(result, "org.testng.ITestResult", "getThrowable");
            report.failed(test, invocation(result), error);
        }
    }

    private static String name(Object result) throws Exception {
        Object testClass = get(result, "org.testng.ITestResult", "getTestClass");
        Object method = get(result, "org.testng.ITestResult", "getMethod");
        return get(testClass, "org.testng.IClass", "getName") + "#"
                + get(method, "org.testng.ITestNGMethod", "getMethodName");
    }

    private static String invocation(Object result) throws Exception {
        Object[] parameters =
                (Object[]) get(result, "org.testng.ITestResult", "getParameters");
        if (parameters == null || parameters.length == 0) {
            return null;
        }
        try {
            return java.util.Arrays.toString(parameters);
        } catch (Throwable broken) {
            // A parameter of the program may fail to tell what it is; its test may pass.
            return "[...]";
        }
    }

    private static Class<?> type(String name) throws ClassNotFoundException {
        return Class.forName(name, true, TestNgFramework.class.getClassLoader());
    }

    private static Object get(Object target, String owner, String method) throws Exception {
        return type(owner).getMethod(method).invoke(target);
    }

    private static void call(Object target, String method, Class<?> parameter, Object argument)
            throws Exception {
        try {
            target.getClass().getMethod(method, parameter).invoke(target, argument);
        } catch (InvocationTargetException error) {
            throw error.getCause() instanceof Exception ? (Exception) error.getCause() : error;
        }
    }
}
